//! Learns y = 2x + 1 with burn, and prints where the time went:
//! `cargo run --release -p mlprof-burn --example burn --features train`

use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, lr_scheduler::constant::ConstantLr};
use burn::tensor::{Device, Tensor};
use burn::train::{
    InferenceStep, Learner, RegressionOutput, SupervisedTraining, TrainOutput, TrainStep,
};
use mlprof_burn::prelude::*;

#[derive(Module, Debug)]
struct Line {
    layer: Linear,
}

impl TrainStep for Line {
    type Input = Tensor<2>;
    type Output = RegressionOutput;

    fn step(&self, x: Tensor<2>) -> TrainOutput<RegressionOutput> {
        let output = InferenceStep::step(self, x);
        // Backward gets a row of its own; burn runs it inside the step.
        TrainOutput::new(self, output.loss.profile_backward(), output)
    }
}

impl InferenceStep for Line {
    type Input = Tensor<2>;
    type Output = RegressionOutput;

    fn step(&self, x: Tensor<2>) -> RegressionOutput {
        let target = x.clone() * 2. + 1.;
        // Each forward pass of the layer becomes a row `[module]Linear: layer`.
        let output = self.layer.profile_forward("layer", x, Linear::forward);
        let loss = MseLoss::new().forward(output.clone(), target.clone(), Reduction::Mean);
        RegressionOutput::new(loss, output, target)
    }
}

struct Column;

impl Batcher<f32, Tensor<2>> for Column {
    fn batch(&self, items: Vec<f32>, device: &Device) -> Tensor<2> {
        Tensor::<1>::from_floats(items.as_slice(), device).unsqueeze_dim(1)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let numbers = || InMemDataset::new((0u8..200).map(|n| f32::from(n) / 100.).collect());
    let loader = || DataLoaderBuilder::new(Column).batch_size(10).build(numbers());
    let model = Line { layer: LinearConfig::new(1, 1).init(&device) };
    let learner = Learner::new(model, AdamConfig::new().init(), ConstantLr::from(0.1));
    // `.profiler("simple")` is the one line that mlprof adds.
    let training = SupervisedTraining::new("/tmp/mlprof-burn-example", loader(), loader());
    training.num_epochs(3).profiler("simple").launch(learner)?;
    Ok(())
}
