//! The layers of a model as rows of a report.

use mlprof_core::hook::observe_output;
use mlprof_core::names::short_type_name;
use tch::Tensor;
use tch::nn::{Module, ModuleT, Path, RNN};

use crate::numerics::Tch;

mlprof_core::layer_wrappers! {
    /// `layer.profile_layer(path)` for every [`tch::nn::Module`]: each forward is a row
    /// `[module]{type}: {path}` of the active profiler.
    ///
    /// ```
    /// use tch::{Device, nn};
    /// use mlprof_tch::prelude::*;
    ///
    /// let store = nn::VarStore::new(Device::Cpu);
    /// let root = &store.root();
    /// let net = nn::seq()
    ///     .add(nn::linear(root / "hidden", 64, 32, Default::default()).profile_layer(root / "hidden"))
    ///     .add_fn(|input| input.relu())
    ///     .add(nn::linear(root / "out", 32, 10, Default::default()).profile_layer("out"))
    ///     .profile_layer(root); // `[module]Sequential`: the whole of it
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
    /// *What it measures*: forward alone (backward runs through the whole model at once); on a CPU the
    /// work, on an accelerator the time to queue it. *Cost* without an active profiler: one relaxed
    /// load; the name is made once, here.
    ProfileLayerExt for Module;

    /// `layer.profile_layer_t(path)` for every [`tch::nn::ModuleT`]: layers that differ between
    /// training and evaluation, such as [`BatchNorm`](tch::nn::BatchNorm). As [`ProfileLayerExt`].
    ProfileLayerTExt for ModuleT;

    /// `layer.profile_layer(path)` for every [`tch::nn::RNN`]: [`LSTM`](tch::nn::LSTM) and
    /// [`GRU`](tch::nn::GRU), which are no [`Module`]s. As [`ProfileLayerExt`]; each `seq`,
    /// `seq_init` and `step` is a forward.
    ///
    /// ```
    /// use tch::nn::{self, RNN};
    /// use tch::{Device, Tensor, kind::FLOAT_CPU};
    /// use mlprof_tch::prelude::*;
    ///
    /// let store = nn::VarStore::new(Device::Cpu);
    /// let path = store.root() / "lstm";
    /// let lstm = nn::lstm(&path, 8, 16, Default::default()).profile_layer(&path); // [module]LSTM: lstm
    /// let (output, _state) = lstm.seq(&Tensor::zeros([2, 5, 8], FLOAT_CPU));
    /// assert_eq!(output.size(), [2, 5, 16]);
    /// ```
    ProfileRnnExt for RNN;

    /// A layer whose forwards the active profiler measures. It is a [`Module`] or an [`RNN`] if the
    /// layer is one; the layer itself is reached through it. A forward that is neither's is measured by
    /// [`measure`](Self::measure):
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
    /// let attention = ProfiledLayer::new(Attention, "block.attention"); // [module]Attention: block.attention
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

/// The name that the documentation of tch uses: `Conv2D` for what is a `Conv<[i64; 2]>` underneath.
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
