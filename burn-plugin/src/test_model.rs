//! A profiled model, which replaces the user's model in an evaluation.

use std::fmt::{self, Display};

use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::Device;
use burn::train::InferenceStep;
use mlprof_core::{Action, ActiveScope, Interest};

use crate::actions;

/// A model whose steps are measured as `[InferenceStep]{Model}.test_step`. All other behaviour is
/// that of the wrapped model.
/// [`ProfiledEvaluatorBuilder::build`](crate::ProfiledEvaluatorBuilder::build) creates it.
#[derive(Debug, Clone)]
pub struct TestModel<M> {
    model: M,
    step: Action,
}

impl<M> TestModel<M> {
    pub(crate) fn new(model: M) -> Self {
        Self { model, step: Action::new(&actions::inference_step::<M>("test_step")) }
    }

    fn map_model(self, change: impl FnOnce(M) -> M) -> Self {
        Self { model: change(self.model), step: self.step }
    }
}

impl<M: InferenceStep> InferenceStep for TestModel<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: Self::Input) -> Self::Output {
        let _scope = ActiveScope::open(|| self.step, Interest::ACTIONS);
        self.model.step(item)
    }
}

impl<M: Display> Display for TestModel<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(formatter)
    }
}

impl<M: Module> Module for TestModel<M> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.model.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.map_model(|model| model.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.map_model(|model| model.to_device(device))
    }

    fn train(self) -> Self {
        self.map_model(Module::train)
    }

    fn valid(&self) -> Self {
        Self { model: self.model.valid(), step: self.step }
    }

    fn materialize(self) -> Self {
        self.map_model(Module::materialize)
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        self.model.visit(visitor);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        self.map_model(|model| model.map(mapper))
    }
}
