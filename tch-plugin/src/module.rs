//! Reports the layers of a model as rows.

use mlprof_core::hook::observe_output;
use mlprof_core::names::short_type_name;
use tch::Tensor;
use tch::nn::{Module, ModuleT, Path, RNN};

use crate::numerics::Tch;

mlprof_core::layer_wrappers! {
    /// Adds `layer.profile_layer(path)` to every [`tch::nn::Module`]. Each forward pass is a row
    /// `[module]{type}: {path}` of the active profiler.
    ///
    /// ```
    /// use tch::{Device, nn};
    /// use mlprof_tch::prelude::*;
    ///
    /// let store = nn::VarStore::new(Device::Cpu);
    /// let root = &store.root();
    /// let net = nn::seq()
    ///     .add({
    ///         let path = root / "hidden";
    ///         nn::linear(&path, 64, 32, Default::default()).profile_layer(&path)
    ///     })
    ///     .add_fn(|input| input.relu())
    ///     .add(nn::linear(root / "out", 32, 10, Default::default()).profile_layer("out"))
    ///     .profile_layer(root); // `[module]Sequential`: the whole network
    /// # let profiler = std::sync::Arc::new(SimpleProfiler::new());
    /// # let active = activate(profiler.clone());
    /// # let input = tch::Tensor::zeros([1, 64], (tch::Kind::Float, Device::Cpu));
    /// # assert_eq!(nn::Module::forward(&net, &input).size(), [1, 10]);
    /// # drop(active);
    /// # for name in ["[module]Linear: hidden", "[module]Linear: out", "[module]Sequential  "] {
    /// #     assert!(profiler.summary().contains(name), "{}", profiler.summary());
    /// # }
    /// ```
    ///
    /// *Measured time*: only the forward pass, because backward runs through the whole model at
    /// once. It is execution time on a CPU and the time to queue the work on an accelerator. *Cost*
    /// without an active profiler: one relaxed load. The name is created once, in this function.
    ProfileLayerExt for Module;

    /// Adds `layer.profile_layer_t(path)` to every [`tch::nn::ModuleT`], a layer that behaves
    /// differently during training, such as [`BatchNorm`](tch::nn::BatchNorm). It measures like
    /// [`ProfileLayerExt`].
    ProfileLayerTExt for ModuleT;

    /// Adds `layer.profile_layer(path)` to every [`tch::nn::RNN`]. [`LSTM`](tch::nn::LSTM) and
    /// [`GRU`](tch::nn::GRU) do not implement [`Module`]. It measures like [`ProfileLayerExt`];
    /// each call of `seq`, `seq_init` or `step` counts as a forward pass.
    ///
    /// ```
    /// use tch::nn::{self, RNN};
    /// use tch::{Device, Tensor, kind::FLOAT_CPU};
    /// use mlprof_tch::prelude::*;
    ///
    /// let store = nn::VarStore::new(Device::Cpu);
    /// let path = store.root() / "lstm";
    /// // [module]LSTM: lstm
    /// let lstm = nn::lstm(&path, 8, 16, Default::default()).profile_layer(&path);
    /// let (output, _state) = lstm.seq(&Tensor::zeros([2, 5, 8], FLOAT_CPU));
    /// assert_eq!(output.size(), [2, 5, 16]);
    /// ```
    ProfileRnnExt for RNN;

    /// A layer whose forward passes are measured by the active profiler. It implements [`Module`]
    /// or [`RNN`] if the wrapped layer does, and dereferences to that layer.
    /// [`measure`](Self::measure) measures forward methods with other signatures:
    ///
    /// ```
    /// use tch::{Tensor, kind::FLOAT_CPU};
    /// use mlprof_tch::ProfiledLayer;
    ///
    /// struct Attention;
    /// impl Attention {
    ///     fn forward(&self, queries: &Tensor, keys: &Tensor) -> Tensor {
    ///         queries.matmul(&keys.tr())
    ///     }
    /// }
    ///
    /// // [module]Attention: block.attention
    /// let attention = ProfiledLayer::new(Attention, "block.attention");
    /// let x = Tensor::zeros([2, 4], FLOAT_CPU);
    /// let scores = attention.measure(|attention| attention.forward(&x, &x));
    /// assert_eq!(scores.size(), [2, 2]);
    /// ```
    ProfiledLayer, announced by crate::ops::install(), named by type_name,
        from Tensor => Tensor, observed by observe_output::<Tch>;
}

impl ModulePath for Path<'_> {
    fn path(&self) -> String {
        self.components().collect::<Vec<_>>().join(".")
    }
}

impl<M: RNN> RNN for ProfiledLayer<M> {
    type State = M::State;

    fn zero_state(&self, batch_dim: i64) -> M::State {
        self.layer.zero_state(batch_dim)
    }

    #[inline]
    fn step(&self, input: &Tensor, state: &M::State) -> M::State {
        self.measure(|layer| layer.step(input, state))
    }

    #[inline]
    fn seq(&self, input: &Tensor) -> (Tensor, M::State) {
        let (output, state) = self.measure(|layer| layer.seq(input));
        observe_output::<Tch>(self.action, input, &output);
        (output, state)
    }

    #[inline]
    fn seq_init(&self, input: &Tensor, state: &M::State) -> (Tensor, M::State) {
        let (output, state) = self.measure(|layer| layer.seq_init(input, state));
        observe_output::<Tch>(self.action, input, &output);
        (output, state)
    }
}

/// Returns the type name used in tch's documentation, such as `Conv2D` for `Conv<[i64; 2]>`.
fn type_name<M>() -> String {
    let short = short_type_name::<M>();
    let dimensions = std::any::type_name::<M>()
        .strip_suffix("]>")
        .and_then(|full| full.rsplit_once("<[i64; "))
        .map(|(_, dimensions)| dimensions);
    match (short, dimensions) {
        ("Conv", Some(dimensions)) => format!("Conv{dimensions}D"),
        ("ConvTransposeND", Some(dimensions)) => format!("ConvTranspose{dimensions}D"),
        _ => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::nn::{
        self, BatchNorm, Conv1D, Conv3D, ConvTranspose2D, Func, Linear, Sequential, VarStore,
    };

    #[test]
    fn types_have_the_names_that_people_write() {
        assert_eq!(type_name::<Linear>(), "Linear");
        assert_eq!(type_name::<Conv1D>(), "Conv1D");
        assert_eq!(type_name::<Conv3D>(), "Conv3D");
        assert_eq!(type_name::<ConvTranspose2D>(), "ConvTranspose2D");
        assert_eq!(type_name::<Sequential>(), "Sequential");
        assert_eq!(type_name::<BatchNorm>(), "BatchNorm");
        assert_eq!(type_name::<Func<'_>>(), "Func");
    }

    #[test]
    fn a_path_is_text_or_a_place_in_a_store() {
        let store = VarStore::new(tch::Device::Cpu);
        let path = &store.root() / "encoder" / 3;
        assert_eq!(ModulePath::path(&path), "encoder.3");
        assert_eq!(ModulePath::path("encoder.3"), "encoder.3");
        let linear = || nn::linear(store.root(), 2, 2, Default::default());
        assert_eq!(linear().profile_layer(&path).action.name(), "[module]Linear: encoder.3");
        assert_eq!(linear().profile_layer(store.root()).action.name(), "[module]Linear");
        assert_eq!(
            linear().profile_layer(String::from("a b:")).action.name(),
            "[module]Linear: a b:"
        );
    }
}
