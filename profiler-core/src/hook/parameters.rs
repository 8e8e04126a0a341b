//! The parameters of a model around a step of its optimizer.

use std::cell::RefCell;

use mlprof_events::TensorRole;

/// What a tensor that a device is to reduce has to do with another one; `T` is a framework's tensor.
#[derive(Debug)]
pub enum Change<'told, T> {
    /// Nothing.
    None,
    /// It is going to change: whoever has it reduced keeps a copy here.
    Begins(&'told RefCell<Option<T>>),
    /// This it was before: its change is reduced.
    Since(&'told T),
}

impl<T> Change<'_, T> {
    /// What the device is to reduce, of a tensor that is `flat` now: itself, or how it has changed. `copy` makes a tensor that stays
    /// as it is while the other changes.
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

/// How a hook tells of a tensor of its framework: its role, its name, and what it has to do with another one.
pub type TellTensor<T> = fn(TensorRole, &str, &T, Change<'_, T>);

/// A step of an optimizer whose parameters are tensors that change in place, of which the numbers are wanted.
///
/// *Cost*: an allocation for each parameter; and on devices a copy of each that is reduced, until the step has ended.
#[derive(Debug)]
pub struct ParametersTold<T> {
    parameters: Vec<Parameter<T>>,
    tell: TellTensor<T>,
}

#[derive(Debug)]
struct Parameter<T> {
    name: String,
    tensor: T,
    /// What it was before, if it is on a device, which is to say how it has changed.
    before: RefCell<Option<T>>,
}

impl<T> ParametersTold<T> {
    /// Tells of gradients, where a parameter has one, and of parameters before the step.
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

    /// Tells of the parameters after it.
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

    /// A number that changes in place.
    type Place = Rc<Cell<f64>>;

    thread_local! {
        static TOLD: RefCell<Vec<(&'static str, String, f64)>> = const { RefCell::new(Vec::new()) };
    }

    fn place(number: f64) -> Place {
        Rc::new(Cell::new(number))
    }

    /// As a device would reduce it; what is called `host` is read instead.
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
