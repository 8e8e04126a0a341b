//! Reports layers as rows.

use candle_core::{Module, ModuleT, Result, Tensor};
use candle_nn::RNN;
use candle_nn::var_builder::{Backend, VarBuilderArgs};
use mlprof_core::names::short_type_name;
use mlprof_core::{Action, hook};

use crate::numerics::{self, Candle};
use crate::{evaluation, framework};

mlprof_core::layer_wrappers! {
    /// Adds `.profile_layer(path)` to every [`Module`]: layers, closures, and a `Sequential` and
    /// its elements. `path` is text, or the `VarBuilder` with which the layer was built.
    ///
    /// ```
    /// # use candle_core::{DType, Device, Module, Tensor};
    /// use candle_nn::{VarBuilder, linear, seq};
    /// use mlprof_candle::prelude::*;
    ///
    /// # let vb = VarBuilder::zeros(DType::F32, &Device::Cpu).pp("decoder");
    /// let net = seq()
    ///     // [module]Linear: decoder.head
    ///     .add(linear(64, 10, vb.pp("head"))?.profile_layer(vb.pp("head")))
    ///     .add((|x: &Tensor| x.relu()).profile_layer("activation")); // [module]closure: activation
    /// # let x = Tensor::zeros((2, 64), DType::F32, &Device::Cpu)?;
    /// assert_eq!(net.forward(&x)?.dims(), [2, 10]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ProfileLayerExt for Module;

    /// Adds `.profile_layer_t(path)` to every [`ModuleT`], a layer that behaves differently during
    /// training, such as `Dropout` and `BatchNorm`.
    ///
    /// ```
    /// # use candle_core::{DType, Device, ModuleT, Tensor};
    /// use candle_nn::Dropout;
    /// use mlprof_candle::prelude::*;
    ///
    /// // [module]Dropout: encoder.dropout
    /// let dropout = Dropout::new(0.5).profile_layer_t("encoder.dropout");
    /// # let x = Tensor::ones((2, 64), DType::F32, &Device::Cpu)?;
    /// assert_eq!(dropout.forward_t(&x, false)?.dims(), [2, 64]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ProfileLayerTExt for ModuleT;

    /// Adds `.profile_layer(path)` to every [`RNN`]. [`LSTM`](candle_nn::LSTM) and
    /// [`GRU`](candle_nn::GRU) do not implement [`Module`]. Each call of `seq`, `seq_init` or
    /// `step` counts as a forward pass.
    ///
    /// ```
    /// # use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{RNN, VarBuilder, lstm};
    /// use mlprof_candle::prelude::*;
    ///
    /// # let vb = VarBuilder::zeros(DType::F32, &Device::Cpu).pp("encoder");
    /// let lstm = lstm(8, 16, Default::default(), vb.pp("lstm"))?.profile_layer(vb.pp("lstm"));
    /// # let x = Tensor::zeros((2, 5, 8), DType::F32, &Device::Cpu)?;
    /// let states = lstm.seq(&x)?; // [module]LSTM: encoder.lstm
    /// assert_eq!(lstm.states_to_tensor(&states)?.dims(), [2, 5, 16]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ProfileRnnExt for RNN;

    /// A layer whose forward passes are measured by the active profiler. It implements [`Module`]
    /// or [`RNN`] if the wrapped layer does, and dereferences to that layer.
    /// [`measure`](Self::measure) measures forward methods with other signatures:
    ///
    /// ```
    /// # use candle_core::{Device, Result, Tensor};
    /// # use mlprof_candle::ProfiledLayer;
    /// struct Attention;
    /// impl Attention {
    ///     fn forward(&self, queries: &Tensor, keys: &Tensor) -> Result<Tensor> {
    ///         queries.matmul(&keys.t()?)
    ///     }
    /// }
    ///
    /// let attention = ProfiledLayer::new(Attention, "block.attention");
    /// # let x = Tensor::zeros((2, 4), candle_core::DType::F32, &Device::Cpu)?;
    /// let scores = attention.measure(|attention| attention.forward(&x, &x))?;
    /// # assert_eq!(scores.dims(), [2, 2]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// *Measured time*: execution time on a CPU; time to queue the work on CUDA and Metal. *Cost*:
    /// the name is created once, in this function. Without an active profiler, each forward pass
    /// costs one additional relaxed load.
    ProfiledLayer, announced by framework::declare(), named by short_type_name,
        from Tensor => Result<Tensor>, observed by observe_output;
}

impl<B: Backend> ModulePath for VarBuilderArgs<'_, B> {
    fn path(&self) -> String {
        self.prefix()
    }
}

/// Builds a layer and measures it under the same path: `vb.pp("head").profile_layer(|vb| linear(64,
/// 10, vb))`.
///
/// ```
/// # use candle_core::{DType, Device, ModuleT, Module, Tensor};
/// use candle_nn::{VarBuilder, batch_norm, linear};
/// use mlprof_candle::prelude::*;
///
/// # let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
/// let vb = vb.pp("decoder");
/// let norm = vb.pp("norm").profile_layer_t(|vb| batch_norm(64, 1e-5, vb))?; // [module]BatchNorm: decoder.norm
/// let head = vb.pp("head").profile_layer(|vb| linear(64, 10, vb))?; // [module]Linear: decoder.head
/// # let x = Tensor::zeros((2, 64), DType::F32, &Device::Cpu)?;
/// assert_eq!(head.forward(&norm.forward_t(&x, false)?)?.dims(), [2, 10]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub trait ProfileBuilderExt: Sized + builder::Sealed {
    /// Returns the layer that `make` builds from this builder. Its forward passes are measured as
    /// `[module]{type}: {path}`.
    ///
    /// # Errors
    ///
    /// Returns the error of `make`.
    #[track_caller]
    fn profile_layer<M>(self, make: impl FnOnce(Self) -> Result<M>) -> Result<ProfiledLayer<M>>;

    /// Returns the layer that `make` builds, for layers that behave differently during training.
    ///
    /// # Errors
    ///
    /// Returns the error of `make`.
    #[track_caller]
    fn profile_layer_t<M>(self, make: impl FnOnce(Self) -> Result<M>) -> Result<ProfiledLayerT<M>>;
}

/// Prevents other crates from implementing [`ProfileBuilderExt`].
mod builder {
    use super::{Backend, VarBuilderArgs};

    pub trait Sealed {}
    impl<B: Backend> Sealed for VarBuilderArgs<'_, B> {}
}

impl<B: Backend> ProfileBuilderExt for VarBuilderArgs<'_, B> {
    #[track_caller]
    fn profile_layer<M>(self, make: impl FnOnce(Self) -> Result<M>) -> Result<ProfiledLayer<M>> {
        let path = self.prefix();
        Ok(ProfiledLayer::new(make(self)?, path))
    }

    #[track_caller]
    fn profile_layer_t<M>(self, make: impl FnOnce(Self) -> Result<M>) -> Result<ProfiledLayerT<M>> {
        self.profile_layer(make).map(ProfiledLayerT)
    }
}

#[inline]
fn observe_output(layer: Action, input: &Tensor, output: &Result<Tensor>) {
    if let Ok(output) = output {
        hook::observe_output::<Candle>(layer, input, output);
        evaluation::count(output);
    }
}

impl<M: RNN> ProfiledLayer<M> {
    /// Reports the states, stacked into one tensor, as the output of a recurrent layer.
    #[inline]
    fn observe_states(&self, input: &Tensor, states: &[M::State]) {
        numerics::observe_lazy_output(self.action, input, || self.layer.states_to_tensor(states));
    }
}

impl<M: RNN> RNN for ProfiledLayer<M> {
    type State = M::State;

    fn zero_state(&self, batch_dim: usize) -> Result<M::State> {
        self.layer.zero_state(batch_dim)
    }

    #[inline]
    fn step(&self, input: &Tensor, state: &M::State) -> Result<M::State> {
        let state = self.measure(|layer| layer.step(input, state))?;
        self.observe_states(input, std::slice::from_ref(&state));
        Ok(state)
    }

    #[inline]
    fn seq(&self, input: &Tensor) -> Result<Vec<M::State>> {
        let states = self.measure(|layer| layer.seq(input))?;
        self.observe_states(input, &states);
        Ok(states)
    }

    #[inline]
    fn seq_init(&self, input: &Tensor, init_state: &M::State) -> Result<Vec<M::State>> {
        let states = self.measure(|layer| layer.seq_init(input, init_state))?;
        self.observe_states(input, &states);
        Ok(states)
    }

    fn states_to_tensor(&self, states: &[M::State]) -> Result<Tensor> {
        self.layer.states_to_tensor(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};
    use candle_nn::VarBuilder;

    #[test]
    fn names_hold_the_type_and_the_path() {
        let name = |action: Action| action.name();
        let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
        let linear = |vb: VarBuilder<'_>| candle_nn::linear(2, 2, vb).expect("zeros are found");
        let head = linear(vb.pp("net").pp("head")).profile_layer(vb.pp("net").pp("head"));
        assert_eq!(name(head.action), "[module]Linear: net.head");
        assert_eq!(
            name(linear(vb.pp("a")).profile_layer("own name").action),
            "[module]Linear: own name"
        );
        assert_eq!(name(linear(vb.pp("a")).profile_layer(&vb).action), "[module]Linear");
        let closure = |x: &Tensor| x.relu();
        assert_eq!(name(closure.profile_layer("act").action), "[module]closure: act");
        assert_eq!(name(Tensor::relu.profile_layer("act").action), "[module]relu: act");
        assert_eq!(name(candle_nn::seq().profile_layer("net").action), "[module]Sequential: net");
        let boxed = ProfiledLayer::new(Box::new(1), "x");
        assert_eq!(name(boxed.action), "[module]Box: x");
    }
}
