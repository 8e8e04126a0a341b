//! The training module of the network, with faults.

use digits::Faults;
use mlprof_tch::prelude::*;
use tch::{Device, Kind, Tensor};
use tch_digits::{Batch, Learner};

use crate::computing::{contrast, normalized, spectrum};
use crate::threads::LockedLog;
use crate::{Besides, Fault};

/// Number of the network's variables, each of which is saved to a file.
const FILES: usize = 8;
/// Number of files that the first step reads.
const FIRST_FILES: usize = 100;
/// Number of files that every tenth step writes.
const TENTH_FILES: usize = 5;

/// A learner that performs unnecessary work in addition to the normal training.
pub(crate) struct FaultyLearner {
    inner: Learner,
    faults: Faults<Fault>,
    besides: Besides,
    history: Vec<Tensor>,
    log: Option<LockedLog>,
}

impl FaultyLearner {
    /// Creates a learner with these faults and these additional computations.
    pub(crate) fn new(faults: Faults<Fault>, besides: Besides) -> Self {
        Self {
            inner: Learner::new(faults.options.seed, Device::Cpu),
            log: faults.has(Fault::Lock).then(|| LockedLog::start(faults.disk)),
            history: Vec::new(),
            faults,
            besides,
        }
    }

    /// Waits as long as `files` file accesses take.
    fn wait_for(&self, files: usize) {
        (0..files).for_each(|_file| self.faults.disk.wait());
    }

    /// Performs the unnecessary waits of this step.
    fn wait(&mut self, step: usize) {
        let has = |fault| self.faults.has(fault);
        if has(Fault::FirstStep) && step == 0 {
            self.wait_for(FIRST_FILES);
        }
        if has(Fault::TenthSteps) && step % 10 == 9 {
            self.wait_for(TENTH_FILES);
        }
        if has(Fault::Steps) {
            self.wait_for(1);
        }
        if let Some(log) = &mut self.log {
            log.add(format!("step {step}"));
        }
    }

    /// Performs the additional computations of this step.
    fn compute(&mut self, images: &Tensor) -> TrainResult<()> {
        let has = |fault| self.faults.has(fault);
        if let Some(side) = self.besides.spectrum {
            let precision = if has(Fault::Doubles) { Kind::Double } else { Kind::Float };
            drop(std::hint::black_box(spectrum(images, side, precision)?));
        }
        if self.besides.normalize {
            drop(std::hint::black_box(normalized(images, has(Fault::Rows))?));
        }
        if has(Fault::Reads) {
            std::hint::black_box(contrast(images)?);
        }
        if has(Fault::History) {
            self.history.push(images.f_upsample_nearest2d([32, 32], None, None)?);
        }
        Ok(())
    }
}

impl TrainModule for FaultyLearner {
    type Batch = Batch;
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        self.inner.configure_optimizers()
    }

    fn training_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<Tensor> {
        self.wait(trainer.global_step());
        self.compute(&batch.images)?;
        self.inner.training_step(batch, trainer)
    }

    fn validation_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        self.inner.validation_step(batch, trainer)
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        if !self.faults.has(Fault::Gradients) {
            return self.inner.test_step(batch, trainer);
        }
        // The trainer evaluates without gradients, so they are enabled explicitly.
        let loss = tch::with_grad(|| self.inner.training_step(batch, trainer))?;
        let loss = loss.f_double_value(&[])?;
        trainer.log("test_accuracy", (-loss).exp());
        Ok(())
    }

    fn weights(&mut self) -> TrainResult<Option<SavedState>> {
        self.wait_for(FILES);
        TrainModule::weights(&mut self.inner)
    }
}
