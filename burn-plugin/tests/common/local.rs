//! A model that burn's distributed loop can train on the CPU.

use std::any::type_name;
use std::fmt::{self, Display};

use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::Device;
use burn::train::{InferenceStep, Learner, RegressionOutput, TrainOutput, TrainStep};

use super::{Batch, Mlp};

/// A model whose parameters stay local. burn's CPU backend has no collective operations and rejects
/// parameters that take part in them. Each worker therefore learns independently.
#[derive(Debug, Clone)]
pub struct Local(pub Mlp);

/// Returns the same learner in every call.
pub fn learner(learning_rate: f64) -> Learner<Local> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let model = Local(Mlp::new(&device));
    Learner::new(model, AdamConfig::new().init(), ConstantLr::from(learning_rate))
}

impl Module for Local {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.to_device(device))
    }

    fn train(self) -> Self {
        Self(self.0.train())
    }

    fn valid(&self) -> Self {
        Self(self.0.valid())
    }

    fn materialize(self) -> Self {
        Self(self.0.materialize())
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        self.0.visit(visitor);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        let shards = type_name::<Mapper>().ends_with("ModuleSharder");
        if shards { self } else { Self(self.0.map(mapper)) }
    }
}

impl Display for Local {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl TrainStep for Local {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        TrainStep::step(&self.0, batch)
    }
}

impl InferenceStep for Local {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        InferenceStep::step(&self.0, batch)
    }
}
