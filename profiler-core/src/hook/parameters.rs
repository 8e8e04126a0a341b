//! Model parameters before and after an optimizer step.

use std::cell::RefCell;

use mlprof_events::TensorRole;

/// Relation of a tensor to an earlier copy, for a reduction on its device. `T` is the framework's
/// tensor type.
#[derive(Debug)]
pub enum Change<'told, T> {
    /// No earlier copy.
    None,
    /// The tensor is about to change. A copy is stored here if the tensor is reduced.
    Begins(&'told RefCell<Option<T>>),
    /// The tensor has changed. The difference to this earlier copy is reduced.
    Since(&'told T),
}

impl<T> Change<'_, T> {
    /// Returns the tensor that the device must reduce: `flat` itself, or its difference to the
    /// earlier copy. `copy` must create a tensor that stays unchanged when the original changes.
    ///
    /// # Errors
    ///
    /// Returns the error of `copy` or `difference`.
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

/// Function of a hook that reports a tensor of its framework. The arguments are the role, the name,
/// the tensor and its [`Change`].
pub type TellTensor<T> = fn(TensorRole, &str, &T, Change<'_, T>);

/// Optimizer step that changes its parameter tensors in place, for profilers that want their
/// values.
///
/// *Cost*: one allocation per parameter. Each parameter that a device reduces is also copied on
/// that device until the step ends.
#[derive(Debug)]
pub struct ParametersTold<T> {
    parameters: Vec<Parameter<T>>,
    tell: TellTensor<T>,
}

#[derive(Debug)]
struct Parameter<T> {
    name: String,
    tensor: T,
    /// Copy of the parameter before the step, if its device must compute the difference.
    before: RefCell<Option<T>>,
}

impl<T> ParametersTold<T> {
    /// Reports the existing gradients and the parameters before the step.
    pub fn begin(
        parameters: impl IntoIterator<Item = (String, T)>,
        gradient: impl Fn(&T) -> Option<T>,
        tell: TellTensor<T>,
    ) -> Self {
        let parameter = |(name, tensor)| Parameter { name, tensor, before: RefCell::new(None) };
        let parameters: Vec<_> = parameters.into_iter().map(parameter).collect();
        for Parameter { name, tensor, before } in &parameters {
            if let Some(gradient) = gradient(tensor) {
                tell(TensorRole::Gradient, name, &gradient, Change::None);
            }
            tell(TensorRole::Parameter, name, tensor, Change::Begins(before));
        }
        Self { parameters, tell }
    }

    /// Reports the parameters after the step.
    pub fn end(self) {
        for Parameter { name, tensor, before } in &self.parameters {
            let before = before.take();
            let change = before.as_ref().map_or(Change::None, Change::Since);
            (self.tell)(TensorRole::Update, name, tensor, change);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A number that changes in place, as a stand-in for a tensor.
    type Place = Rc<Cell<f64>>;

    thread_local! {
        static TOLD: RefCell<Vec<(&'static str, String, f64)>> = const { RefCell::new(Vec::new()) };
    }

    fn place(number: f64) -> Place {
        Rc::new(Cell::new(number))
    }

    /// Reports a number as if a device had reduced it. A tensor named `host` is read directly
    /// instead.
    fn tell(role: TensorRole, name: &str, tensor: &Place, change: Change<'_, Place>) {
        let copy = |flat: &Place| Ok::<_, ()>(place(flat.get()));
        let difference = |now: &Place, before: &Place| Ok(place(now.get() - before.get()));
        let told = match name {
            "host" => tensor.clone(),
            _ => change.of(tensor.clone(), copy, difference).expect("a number"),
        };
        TOLD.with_borrow_mut(|all| all.push((role.name(), name.to_owned(), told.get())));
    }

    #[test]
    fn a_step_tells_what_a_device_sees_change() {
        let (device, host) = (place(3.0), place(5.0));
        let parameters = [("device".to_owned(), device.clone()), ("host".to_owned(), host.clone())];
        let gradient = |of: &Place| (of.get() == 3.0).then(|| place(0.5));
        let told = ParametersTold::begin(parameters, gradient, tell);
        device.set(2.0);
        host.set(4.0);
        told.end();
        let expected = [
            ("gradient", "device", 0.5),
            ("parameter", "device", 3.0),
            ("parameter", "host", 5.0),
            ("update", "device", -1.0),
            ("update", "host", 4.0),
        ];
        let told = TOLD.take();
        let told: Vec<_> =
            told.iter().map(|(role, name, it)| (*role, name.as_str(), *it)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_cannot_be_copied_is_not_reduced() {
        let kept = RefCell::new(None);
        let failed = Change::Begins(&kept).of(1, |_| Err("no memory"), |_, _| Ok(0));
        assert_eq!((failed, kept.take()), (Err("no memory"), None));
    }
}
