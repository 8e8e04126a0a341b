//! Reports the layers of a model as rows.

use std::any::Any;
use std::cell::RefCell;

use burn::module::Module;
use mlprof_core::names::short_type_name;
use mlprof_core::{Action, ActiveScope, Interest, hook};

use crate::numerics;

/// Measures the forward pass of any burn module: `layer.profile_layer("conv1", |layer|
/// layer.forward(images))`. Each forward is a row `[module]{type}: {path}` of the active profiler,
/// and its ops belong to that row.
///
/// burn's modules have forward methods with different signatures and no hook around them, so the
/// call wraps the forward call. Inside another profiled module, pass only the module's own part of
/// the path, usually the field name:
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::prelude::*;
/// use mlprof_burn::prelude::*;
///
/// #[derive(Module, Debug)]
/// struct Encoder {
///     hidden: Linear,
/// }
///
/// impl Encoder {
///     fn forward(&self, input: Tensor<2>) -> Tensor<2> {
///         self.hidden.profile_layer("hidden", |layer| layer.forward(input))
///     }
/// }
///
/// let device = Device::flex();
/// let encoder = Encoder { hidden: LinearConfig::new(4, 8).init(&device) };
/// # let profiler = std::sync::Arc::new(SimpleProfiler::new());
/// # let active = activate(profiler.clone());
/// let output = encoder.profile_layer("encoder", |encoder| encoder.forward(Tensor::ones([2, 4], &device)));
/// assert_eq!(output.dims(), [2, 8]);
/// # drop(active);
/// # for name in ["[module]Encoder: encoder ", "[module]Linear: encoder.hidden"] {
/// #     assert!(profiler.summary().contains(name), "{}", profiler.summary());
/// # }
/// ```
///
/// *Measured time*: only the forward pass. On backends that execute ops immediately (flex,
/// ndarray), it is the execution time. On backends that queue ops (CUDA, wgpu), it is the time to
/// queue them. With the feature `cubecl`, the Tensor profiler's module view shows device time and
/// operation counts of the ops. *Cost*: one relaxed load without an active profiler, and about 0.2
/// µs for the name with one.
///
/// *Numbers*: [`NumericsProfiler`](mlprof_core::NumericsProfiler) observes these outputs of the
/// forward pass:
///
/// - a tensor
/// - the first tensor of a pair of equal rank
/// - the hidden state of burn's recurrent layers
/// - the context of an `MhaOutput`
///
/// A note in its report lists modules that return other types.
pub trait ProfileLayerExt: Module + sealed::Sealed {
    /// Runs `forward` under this module's name. `path` is the module's own part of its path in the
    /// model, usually its field name.
    fn profile_layer<T: 'static>(&self, path: &str, forward: impl FnOnce(&Self) -> T) -> T {
        if is_measured() { measured(self, path, None, forward) } else { forward(self) }
    }

    /// Runs a forward whose input the profiler can also observe.
    /// [`NumericsProfiler`](mlprof_core::NumericsProfiler) can then detect whether this layer
    /// produced non-finite values. `mlprof compare-numerics` can detect whether two runs diverge
    /// here. The method itself can be passed as the forward:
    ///
    /// ```
    /// # use burn::nn::{Linear, LinearConfig};
    /// # use burn::prelude::*;
    /// # use mlprof_burn::prelude::*;
    /// # let device = Device::flex();
    /// # let head = LinearConfig::new(4, 8).init(&device);
    /// # let features = Tensor::<2>::ones([2, 4], &device);
    /// let scores = head.profile_forward("head", features, Linear::forward);
    /// assert_eq!(scores.dims(), [2, 8]);
    /// ```
    ///
    /// *Cost*: while numbers are observed, the input is kept alive until the forward has returned.
    fn profile_forward<I: Clone + 'static, T: 'static>(
        &self,
        path: &str,
        input: I,
        forward: impl FnOnce(&Self, I) -> T,
    ) -> T {
        if !is_measured() {
            return forward(self, input);
        }
        let kept = numerics::is_wanted().then(|| input.clone());
        let kept = kept.as_ref().map(|input| input as &dyn Any);
        measured(self, path, kept, |module| forward(module, input))
    }
}

impl<M: Module> ProfileLayerExt for M {}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<M: super::Module> Sealed for M {}
}

fn is_measured() -> bool {
    let interest = hook::interest();
    interest.contains(Interest::ACTIONS) || interest.contains(Interest::NUMERICS)
}

fn measured<M: Module, T: 'static>(
    module: &M,
    path: &str,
    input: Option<&dyn Any>,
    forward: impl FnOnce(&M) -> T,
) -> T {
    let place = Place::enter(path);
    let action = place.action::<M>();
    let scope = ActiveScope::open(|| action, Interest::ACTIONS);
    let output = forward(module);
    drop(scope);
    if numerics::is_wanted() {
        numerics::tell_output(action, input, &output);
    }
    output
}

thread_local! {
    /// Path of the innermost profiled module that runs on this thread.
    static PATH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Calls `change` with the path. Returns `None` while the thread is being torn down.
fn with_path<T>(change: impl FnOnce(&mut String) -> T) -> Option<T> {
    PATH.try_with(|path| path.try_borrow_mut().ok().map(|mut path| change(&mut path)))
        .ok()
        .flatten()
}

/// RAII guard for a running module.
struct Place {
    /// Length of the enclosing path in bytes.
    around: usize,
}

impl Place {
    fn enter(path: &str) -> Self {
        let around = with_path(|whole| {
            let around = whole.len();
            if around > 0 && !path.is_empty() {
                whole.push('.');
            }
            whole.push_str(path);
            around
        });
        Self { around: around.unwrap_or(0) }
    }

    fn action<M>(&self) -> Action {
        let action = with_path(|whole| Action::module(short_type_name::<M>(), whole));
        action.unwrap_or_else(|| Action::module(short_type_name::<M>(), ""))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        with_path(|whole| whole.truncate(self.around));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex};

    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;
    use mlprof_core::{NeverStarted, Profiler, activate};

    use super::*;

    #[derive(Default)]
    struct Names(Mutex<Vec<&'static str>>);

    impl Profiler for Names {
        fn start(&self, action: Action) {
            self.0.lock().expect("no panic").push(action.name());
        }

        fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
            Ok(())
        }
    }

    fn layer() -> Linear {
        LinearConfig::new(2, 2).init(&Device::flex())
    }

    #[test]
    fn paths_grow_inwards_and_shrink_again_also_after_a_panic() {
        let names = Arc::new(Names::default());
        let (outer, inner) = (layer(), layer());
        assert_eq!(outer.profile_layer("unseen", |_| 1), 1);
        let active = activate(names.clone());
        outer.profile_layer("blocks", |outer| {
            let fails = || inner.profile_layer("0", |_| panic!("on purpose"));
            assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
            outer.profile_layer("", |_| inner.profile_layer("1", |_| ()));
        });
        inner.profile_layer("head", |_| ());
        drop(active);
        let names = names.0.lock().expect("no panic");
        let expected = ["blocks", "blocks.0", "blocks", "blocks.1", "head"];
        assert_eq!(*names, expected.map(|path| format!("[module]Linear: {path}")));
    }
}
