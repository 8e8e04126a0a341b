//! The layers of a model as rows of a report.

use std::any::Any;
use std::cell::RefCell;

use burn::module::Module;
use mlprof_core::names::short_type_name;
use mlprof_core::{Action, ActiveScope, Interest, hook};

use crate::numerics;

/// `layer.profile_layer("conv1", |layer| layer.forward(images))` for every module of burn: each
/// forward is a row `[module]{type}: {path}` of the active profiler, and its ops belong to it.
///
/// burn's modules have forwards of many forms and no hook around them; the call stands where the
/// forward stood. Inside another profiled module only the own part of the path is written, as fields
/// are named where they are used:
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
/// *What it measures*: forward alone; on backends that run at once (flex, ndarray) the work, on those
/// that queue (CUDA, wgpu) the time to queue it. With the feature `cubecl` the Tensor profiler's module
/// view has the device time and the operations of its ops. *Cost* without an active profiler: one
/// relaxed load; with one, some 0.2 µs for the name.
///
/// *Numbers*: [`NumericsProfiler`](mlprof_core::NumericsProfiler) looks at what the forward returns, if that is a tensor, a pair
/// of tensors of one rank, what burn's recurrent layers return, or an `MhaOutput`; of more than one tensor at the first, or the
/// hidden state, or the context. A note in its report names modules that return something else.
pub trait ProfileLayerExt: Module + sealed::Sealed {
    /// Runs a forward of any form under this module's name. `path` is the module's own part of its
    /// path in the model, as a field's name.
    fn profile_layer<T: 'static>(&self, path: &str, forward: impl FnOnce(&Self) -> T) -> T {
        if is_measured() { measured(self, path, None, forward) } else { forward(self) }
    }

    /// The same for a forward whose input the profiler may see, too: then
    /// [`NumericsProfiler`](mlprof_core::NumericsProfiler) can tell whether what is not finite was
    /// made here, and `mlprof compare-numerics` whether two runs part here. The method itself will
    /// do as a forward:
    ///
    /// ```
    /// # use burn::nn::{Linear, LinearConfig};
    /// # use burn::prelude::*;
    /// # use mlprof_burn::prelude::*;
    /// # let device = Device::flex();
    /// # let (head, features) = (LinearConfig::new(4, 8).init(&device), Tensor::<2>::ones([2, 4], &device));
    /// let scores = head.profile_forward("head", features, Linear::forward);
    /// assert_eq!(scores.dims(), [2, 8]);
    /// ```
    ///
    /// *Cost*: while numbers are looked at, the input is kept until the forward has returned.
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

/// Keeps other crates from implementing the extension trait.
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
    /// The path of the innermost profiled module that runs on this thread.
    static PATH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Nothing while the thread is being torn down.
fn with_path<T>(change: impl FnOnce(&mut String) -> T) -> Option<T> {
    PATH.try_with(|path| path.try_borrow_mut().ok().map(|mut path| change(&mut path)))
        .ok()
        .flatten()
}

/// While a module runs.
struct Place {
    /// How long the path around it is.
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
