//! Reports gradients and parameters of an optimizer step by their names in the model.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use mlprof_core::hook::{Change, TensorNumbers, TensorRole};

use super::tensor::Numbers;
use super::{is_wanted, tell};

/// Tensors reported before an optimizer step, if a profiler observes numbers.
pub(crate) struct StepTold {
    /// `None` if no profiler observes numbers.
    told: Option<ParametersBefore>,
}

/// The parameters that were reported before the step. For a parameter on a device it holds the
/// value before the step, from which the update is computed.
type ParametersBefore = HashMap<ParamId, Option<Tensor<1>>>;

impl StepTold {
    /// Reports gradients and parameters before the step. `model` is called only if a profiler
    /// observes numbers, and its result is dropped before this function returns.
    pub(crate) fn begin<M: Module, B: Borrow<M>>(
        model: impl FnOnce() -> B,
        gradients: &[&GradientsParams],
    ) -> Self {
        if !is_wanted() {
            return Self { told: None };
        }
        let mut told = ParametersBefore::default();
        model().borrow().visit(&mut BeforeVisitor { path: Vec::new(), gradients, told: &mut told });
        Self { told: Some(told) }
    }

    /// Reports the parameters after the step.
    pub(crate) fn end<M: Module, B: Borrow<M>>(self, model: impl FnOnce() -> B) {
        if let Some(told) = self.told {
            model().borrow().visit(&mut AfterVisitor { path: Vec::new(), told });
        }
    }
}

fn tell_parameter(role: TensorRole, path: &[String], tensor: &dyn TensorNumbers) {
    tell(role, &path.join("."), tensor, None);
}

struct BeforeVisitor<'step> {
    path: Vec<String>,
    gradients: &'step [&'step GradientsParams],
    told: &'step mut ParametersBefore,
}

impl ModuleVisitor for BeforeVisitor<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        // A lazy parameter that no forward pass has used is initialised by the optimizer. Reading
        // it here would initialise it too early.
        if !parameter.is_initialized() {
            return;
        }
        let tensor = parameter.base();
        let gradients = self.gradients.iter().filter_map(|all| all.get::<D>(parameter.id));
        let gradients: Vec<Tensor<D>> = gradients.collect();
        if gradients.is_empty() && !tensor.is_require_grad() {
            return;
        }
        for gradient in &gradients {
            tell_parameter(TensorRole::Gradient, &self.path, &Numbers::of(gradient));
        }
        let before = RefCell::new(None);
        let numbers = Numbers::changing(&tensor, Change::Begins(&before));
        tell_parameter(TensorRole::Parameter, &self.path, &numbers);
        self.told.insert(parameter.id, before.take());
    }
}

struct AfterVisitor {
    path: Vec<String>,
    told: ParametersBefore,
}

impl ModuleVisitor for AfterVisitor {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let Some(before) = self.told.get(&parameter.id) else { return };
        let change = before.as_ref().map_or(Change::None, Change::Since);
        let tensor = parameter.base();
        tell_parameter(TensorRole::Update, &self.path, &Numbers::changing(&tensor, change));
    }
}
