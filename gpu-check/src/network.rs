//! Small trainings with burn.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, DeviceIndex, Distribution, Tensor};
use mlprof_burn::ProfileBackwardExt;

/// Returns the first GPU with autodiff.
pub fn device() -> Device {
    Device::cuda(DeviceIndex::Default).autodiff()
}

/// A network of a convolution and two linear layers, with many small kernels of several kinds.
#[derive(Module, Debug)]
pub struct Small {
    edges: Conv2d,
    hidden: Linear,
    out: Linear,
}

/// A network of linear layers that are large enough to keep the device busier than the host.
#[derive(Module, Debug)]
pub struct Large {
    layers: Vec<Linear>,
}

/// A model that maps a batch to an output.
pub trait Forward: Module {
    fn forward(&self, batch: Tensor<4>) -> Tensor<2>;
}

impl Forward for Small {
    fn forward(&self, batch: Tensor<4>) -> Tensor<2> {
        let edges: Tensor<2> = relu(self.edges.forward(batch)).flatten(1, 3);
        self.out.forward(relu(self.hidden.forward(edges)))
    }
}

impl Forward for Large {
    fn forward(&self, batch: Tensor<4>) -> Tensor<2> {
        let flat: Tensor<2> = batch.flatten(1, 3);
        self.layers.iter().fold(flat, |values, layer| relu(layer.forward(values)))
    }
}

/// A model with its training state.
pub struct Training<M> {
    /// Always `Some` between two steps.
    model: Option<M>,
    optimizer: ModuleOptimizer,
    batch: Tensor<4>,
    wanted: Tensor<2>,
}

impl Training<Small> {
    pub fn small(device: &Device) -> Self {
        let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
        let model = Small {
            edges: Conv2dConfig::new([1, 16], [3, 3]).with_padding(padding).init(device),
            hidden: LinearConfig::new(16 * 16 * 16, 128).init(device),
            out: LinearConfig::new(128, 10).init(device),
        };
        Self::new(model, [64, 1, 16, 16], 10, device)
    }
}

impl Training<Large> {
    pub fn large(device: &Device) -> Self {
        const WIDTH: usize = 4096;
        let layer = |_| LinearConfig::new(WIDTH, WIDTH).init(device);
        let model = Large { layers: (0..4).map(layer).collect() };
        Self::new(model, [2048, 1, 64, 64], WIDTH, device)
    }
}

impl<M: Forward> Training<M> {
    fn new(model: M, batch: [usize; 4], classes: usize, device: &Device) -> Self {
        Self {
            model: Some(model),
            optimizer: SgdConfig::new().init(),
            batch: Tensor::random(batch, Distribution::Default, device),
            wanted: Tensor::random([batch[0], classes], Distribution::Default, device),
        }
    }

    /// Runs forward, backward and the optimizer step. The device may still be working when it
    /// returns.
    pub fn step(&mut self) {
        let Some(model) = self.model.take() else { return };
        let made = model.forward(self.batch.clone());
        let loss = MseLoss::new().forward(made, self.wanted.clone(), Reduction::Mean);
        let gradients = GradientsParams::from_grads(loss.profile_backward(), &model);
        self.model = Some(self.optimizer.step(1e-3, model, gradients));
    }
}
