//! Profiling of an optimizer step in a hand-written loop.

use burn::module::Module;
use burn::optim::{
    GradientsParams, ModuleOptimizer, lr_scheduler::module_lr_scheduler::ModuleLearningRate,
};
use mlprof_core::profile;

use crate::actions;
use crate::numerics::StepTold;

/// Measures an optimizer step as an action and reports its numbers: `optimizer.profile_step(rate,
/// model, gradients)`.
///
/// A training that burn runs under a profiler does not need this. In a hand-written loop, it
/// replaces `optimizer.step(…)`. The report then has a row `Optimizer.step`.
/// [`NumericsProfiler`](mlprof_core::NumericsProfiler) observes gradients, parameters and updates
/// by their names in the model.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::{GradientsParams, SgdConfig};
/// use burn::prelude::*;
/// use mlprof_burn::prelude::*;
///
/// let device = Device::flex().autodiff();
/// let mut model: Linear = LinearConfig::new(3, 1).init(&device);
/// let mut optimizer = SgdConfig::new().init();
/// # let profiler = std::sync::Arc::new(NumericsProfiler::new());
/// # let active = activate(profiler.clone());
/// let loss = model.forward(Tensor::<2>::ones([2, 3], &device)).mean();
/// let gradients = GradientsParams::from_grads(loss.profile_backward(), &model);
/// model = optimizer.profile_step(0.1, model, gradients);
/// # drop(active);
/// # let report = profiler.snapshot();
/// # let is_update = |row: &&mlprof_core::report::numerics::TensorRow| row.role.name() == "update";
/// # let updates: Vec<_> = report.tensors.iter().filter(is_update).map(|row| &*row.name).collect();
/// # assert_eq!(updates, ["weight", "bias"]);
/// ```
///
/// *Cost* without an active profiler: two relaxed loads.
pub trait ProfileOptimizerExt: sealed::Sealed {
    /// Calls [`ModuleOptimizer::step`] and measures it as `Optimizer.step` with the active
    /// profiler.
    fn profile_step<M: Module>(
        &mut self,
        rate: impl Into<ModuleLearningRate>,
        model: M,
        gradients: GradientsParams,
    ) -> M;
}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ModuleOptimizer {}
}

impl ProfileOptimizerExt for ModuleOptimizer {
    fn profile_step<M: Module>(
        &mut self,
        rate: impl Into<ModuleLearningRate>,
        model: M,
        gradients: GradientsParams,
    ) -> M {
        let told = StepTold::begin::<M, _>(|| &model, &[&gradients]);
        let model = {
            let _action = profile!(actions::OPTIMIZER_UPDATE);
            self.step(rate, model, gradients)
        };
        told.end::<M, _>(|| &model);
        model
    }
}
