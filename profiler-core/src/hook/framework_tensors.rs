//! Observations of a framework's tensors: outputs of layers, batches, losses, and the parameters of
//! a model around a step of its optimizer.

use std::cell::RefCell;

use mlprof_events::{Action, Interest, ObservedTensor, TensorNumbers, TensorRole};

use super::{interest, tensor};

/// Relation of a tensor that a device reduces to an earlier state of it; `T` is a framework's
/// tensor.
#[derive(Debug)]
pub enum Change<'tensor, T> {
    /// No relation.
    None,
    /// The tensor is going to change. The reduction keeps a copy of it here.
    Begins(&'tensor RefCell<Option<T>>),
    /// The tensor was this before. Its change is reduced.
    Since(&'tensor T),
}

impl<T> Change<'_, T> {
    /// Returns the device reductions of a tensor whose current values are `flat`: those of the
    /// tensor, or of its change. `copy` returns a tensor that keeps its numbers while `flat`
    /// changes.
    ///
    /// # Errors
    ///
    /// Those of `copy` and of `difference`.
    pub fn of<E>(
        &self,
        flat: T,
        copy: impl FnOnce(&T) -> Result<T, E>,
        difference: impl FnOnce(&T, &T) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::None => Ok(flat),
            Self::Begins(kept) => {
                *kept.borrow_mut() = Some(copy(&flat)?);
                Ok(flat)
            }
            Self::Since(before) => difference(&flat, before),
        }
    }
}

/// A framework whose tensors change in place, such as candle and tch. Plugins implement it for a
/// type of their own; programs do not use it.
#[doc(hidden)]
pub trait TensorFramework {
    /// A handle of a tensor.
    type Tensor;

    /// The numbers of a tensor.
    type Numbers<'tensor>: TensorNumbers
    where
        Self::Tensor: 'tensor;

    /// Returns the numbers of a tensor, and of its change.
    fn numbers<'tensor>(
        tensor: &'tensor Self::Tensor,
        change: Change<'tensor, Self::Tensor>,
    ) -> Self::Numbers<'tensor>;
}

/// Returns whether an active profiler wants the numbers of tensors. *Cost*: one relaxed load.
#[doc(hidden)]
#[inline]
pub fn wants_numerics() -> bool {
    interest().contains(Interest::NUMERICS)
}

/// Reports the output of a layer. *Cost* if no profiler wants it: one relaxed load.
#[doc(hidden)]
#[inline]
pub fn observe_output<F: TensorFramework>(layer: Action, input: &F::Tensor, output: &F::Tensor) {
    if wants_numerics() {
        let input = F::numbers(input, Change::None);
        observe::<F>(TensorRole::Output, layer.name(), output, Some(&input), Change::None);
    }
}

/// Reports a tensor that a training step learns from. *Cost* if no profiler wants it: one relaxed
/// load.
#[doc(hidden)]
#[inline]
pub fn observe_batch<F: TensorFramework>(name: &str, tensor: &F::Tensor) {
    if wants_numerics() {
        observe::<F>(TensorRole::Batch, name, tensor, None, Change::None);
    }
}

/// Reports the loss that backward begins with. *Cost* if no profiler wants it: one relaxed load.
#[doc(hidden)]
#[inline]
pub fn observe_loss<F: TensorFramework>(loss: &F::Tensor) {
    if wants_numerics() {
        observe::<F>(TensorRole::Loss, "loss", loss, None, Change::None);
    }
}

fn observe<F: TensorFramework>(
    role: TensorRole,
    name: &str,
    observed: &F::Tensor,
    input: Option<&dyn TensorNumbers>,
    change: Change<'_, F::Tensor>,
) {
    tensor(&ObservedTensor { role, name, tensor: &F::numbers(observed, change), input });
}

/// A step of an optimizer whose parameters change in place and are reported before and after it.
///
/// *Cost*: an allocation for each parameter, and on devices a copy of each that is reduced, until
/// the step has ended.
#[doc(hidden)]
pub struct ObservedStep<F: TensorFramework> {
    parameters: Vec<Parameter<F::Tensor>>,
}
crate::debug_as_name!([F: TensorFramework] ObservedStep<F>);

struct Parameter<T> {
    name: String,
    tensor: T,
    /// Copy of a tensor on a device, from which its change is computed.
    before: RefCell<Option<T>>,
}

impl<F: TensorFramework> ObservedStep<F> {
    /// Reports gradients, where a parameter has one, and parameters before the step. Returns `None`
    /// if no profiler wants them; `parameters` is then not called.
    pub fn begin(
        parameters: impl FnOnce() -> Vec<(String, F::Tensor)>,
        gradient: impl Fn(&F::Tensor) -> Option<F::Tensor>,
    ) -> Option<Self> {
        if !wants_numerics() {
            return None;
        }
        let parameter = |(name, tensor)| Parameter { name, tensor, before: RefCell::new(None) };
        let parameters: Vec<_> = parameters().into_iter().map(parameter).collect();
        for Parameter { name, tensor, before } in &parameters {
            if let Some(gradient) = gradient(tensor) {
                observe::<F>(TensorRole::Gradient, name, &gradient, None, Change::None);
            }
            observe::<F>(TensorRole::Parameter, name, tensor, None, Change::Begins(before));
        }
        Some(Self { parameters })
    }

    /// Reports the parameters after the step.
    pub fn end(self) {
        for Parameter { name, tensor, before } in &self.parameters {
            let before = before.take();
            let change = before.as_ref().map_or(Change::None, Change::Since);
            observe::<F>(TensorRole::Update, name, tensor, None, change);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};

    use mlprof_events::{NumberReader, Observation};

    use super::*;
    use crate::{NeverStarted, Profiler, activate};

    /// A number that changes in place, on a device or on the host.
    #[derive(Clone)]
    struct Cells {
        number: Rc<Cell<f64>>,
        is_on_device: bool,
    }

    impl Cells {
        fn of(number: f64, is_on_device: bool) -> Self {
            Self { number: Rc::new(Cell::new(number)), is_on_device }
        }
    }

    struct Numbers<'tensor> {
        tensor: &'tensor Cells,
        change: Change<'tensor, Cells>,
    }

    impl TensorNumbers for Numbers<'_> {
        fn element_type(&self) -> &'static str {
            "f64"
        }

        fn shape(&self) -> Vec<u64> {
            Vec::new()
        }

        /// Only a device computes changes.
        fn read(&self, reader: &mut dyn NumberReader) -> bool {
            let copy = |flat: &Cells| Ok::<_, ()>(Cells::of(flat.number.get(), true));
            let difference = |now: &Cells, before: &Cells| {
                copy(&Cells::of(now.number.get() - before.number.get(), true))
            };
            let number = match self.tensor.is_on_device {
                true => self.change.of(self.tensor.clone(), copy, difference).expect("a number"),
                false => self.tensor.clone(),
            };
            reader.read_f64(&[number.number.get()]);
            true
        }
    }

    #[derive(Debug)]
    struct InPlace;

    impl TensorFramework for InPlace {
        type Tensor = Cells;
        type Numbers<'tensor> = Numbers<'tensor>;

        fn numbers<'tensor>(
            tensor: &'tensor Cells,
            change: Change<'tensor, Cells>,
        ) -> Numbers<'tensor> {
            Numbers { tensor, change }
        }
    }

    /// Records the role, the name and the number of each tensor.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<(&'static str, String, f64)>>);

    impl Profiler for Recorder {
        fn start(&self, _action: Action) {}

        fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
            Ok(())
        }

        fn interest(&self) -> Interest {
            Interest::NUMERICS
        }

        fn observe(&self, observation: &Observation<'_>) {
            let Observation::Tensor(observed) = observation else { return };
            let mut number = Last(f64::NAN);
            assert!(observed.tensor.read(&mut number));
            let row = (observed.role.name(), observed.name.to_owned(), number.0);
            self.0.lock().expect("rows").push(row);
        }
    }

    struct Last(f64);

    impl NumberReader for Last {
        fn read_f32(&mut self, _numbers: &[f32]) {}

        fn read_f64(&mut self, numbers: &[f64]) {
            self.0 = numbers[0];
        }

        fn read_each(&mut self, _numbers: &mut dyn Iterator<Item = f64>, _least_normal: f64) {}
    }

    #[test]
    fn a_step_reports_the_changes_on_a_device() {
        let (device, host) = (Cells::of(3.0, true), Cells::of(5.0, false));
        let parameters =
            || vec![("device".to_owned(), device.clone()), ("host".to_owned(), host.clone())];
        let gradient = |of: &Cells| (of.number.get() == 3.0).then(|| Cells::of(0.5, true));
        assert!(
            ObservedStep::<InPlace>::begin(parameters, gradient).is_none(),
            "no profiler wants it"
        );
        let recorder = Arc::new(Recorder::default());
        let active = activate(recorder.clone());
        observe_batch::<InPlace>("inputs", &host);
        observe_output::<InPlace>(Action::new("layer"), &host, &device);
        observe_loss::<InPlace>(&host);
        let step = ObservedStep::<InPlace>::begin(parameters, gradient).expect("it is wanted");
        device.number.set(2.0);
        host.number.set(4.0);
        step.end();
        drop(active);
        let expected = [
            ("batch", "inputs", 5.0),
            ("output", "layer", 3.0),
            ("loss", "loss", 5.0),
            ("gradient", "device", 0.5),
            ("parameter", "device", 3.0),
            ("parameter", "host", 5.0),
            ("update", "device", -1.0),
            ("update", "host", 4.0),
        ];
        let rows = recorder.0.lock().expect("rows");
        let rows: Vec<_> =
            rows.iter().map(|(role, name, number)| (*role, name.as_str(), *number)).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn tensors_that_cannot_be_copied_are_not_reduced() {
        let kept = RefCell::new(None);
        let failed = Change::Begins(&kept).of(1, |_| Err("no memory"), |_, _| Ok(0));
        assert_eq!((failed, kept.take()), (Err("no memory"), None));
    }
}
