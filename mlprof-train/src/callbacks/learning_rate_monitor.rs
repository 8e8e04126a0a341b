//! Record of the learning rates of a training.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::module::{Callback, HookContext, TrainModule};
use crate::optimizer::LrInterval;
use crate::saved_state::{Dtype, SavedState, SavedTensor};
use crate::state::TrainerState;

/// Follows the learning rate: as the metric `lr`, which the progress bar and other callbacks see,
/// and as a list of all values. A clone shares the list.
///
/// ```
/// use mlprof_train::{LearningRateMonitor, LrInterval, Trainer};
///
/// let monitor = LearningRateMonitor::new(LrInterval::Step);
/// # fn with<M: mlprof_train::TrainModule>(monitor: &LearningRateMonitor) -> Trainer<M> {
/// let trainer = Trainer::new().callback(monitor.clone());
/// // trainer.fit(…)?;
/// # trainer
/// # }
/// for (step, rate) in monitor.rates() {
///     println!("{step} {rate}");
/// }
/// ```
#[derive(Debug, Clone)]
pub struct LearningRateMonitor {
    interval: LrInterval,
    rates: Arc<Mutex<Vec<(usize, f64)>>>,
}

impl LearningRateMonitor {
    /// Creates a callback that records the rate. With [`LrInterval::Epoch`], it records at the
    /// start of each epoch. With [`LrInterval::Step`], it records at the start of each training
    /// batch that begins an optimizer step.
    pub fn new(interval: LrInterval) -> Self {
        Self { interval, rates: Arc::default() }
    }

    /// Returns the optimizer steps at which the rate was looked at, and the rates, also while the
    /// trainer runs.
    pub fn rates(&self) -> Vec<(usize, f64)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, f64)>> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, trainer: &mut TrainerState) {
        let (step, Some(rate)) = (trainer.global_step(), trainer.learning_rate()) else { return };
        let mut rates = self.lock();
        if rates.last().is_none_or(|(last, _)| *last != step) {
            rates.push((step, rate));
        }
        trainer.set_metric("lr", rate);
    }

    fn saved(&self) -> SavedState {
        let rates = self.rates();
        let mut state = SavedState::new();
        let mut set = |name, dtype, bytes: Vec<u8>| {
            if let Ok(tensor) = SavedTensor::new(dtype, vec![rates.len()], bytes) {
                state.set_tensor(name, tensor);
            }
        };
        let steps = rates.iter().flat_map(|(step, _)| (*step as u64).to_le_bytes());
        set("steps", Dtype::I64, steps.collect());
        set("rates", Dtype::F64, rates.iter().flat_map(|(_, rate)| rate.to_le_bytes()).collect());
        state
    }

    fn restore(&mut self, state: &SavedState) -> Result<()> {
        let shape = state.tensor("steps")?.shape();
        let [steps, rates] = [("steps", Dtype::I64), ("rates", Dtype::F64)]
            .map(|(name, dtype)| state.tensor_like(name, dtype, shape));
        let (steps, rates) = (steps?.bytes().as_chunks().0, rates?.bytes().as_chunks().0);
        let both = steps.iter().zip(rates);
        let both = both
            .map(|(step, rate)| (u64::from_le_bytes(*step) as usize, f64::from_le_bytes(*rate)));
        *self.lock() = both.collect();
        Ok(())
    }
}

impl<M: TrainModule> Callback<M> for LearningRateMonitor {
    fn on_train_epoch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if self.interval == LrInterval::Epoch {
            self.look(trainer);
        }
        Ok(())
    }

    fn on_train_batch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if self.interval == LrInterval::Step {
            self.look(trainer);
        }
        Ok(())
    }

    fn state(&self) -> SavedState {
        self.saved()
    }

    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        self.restore(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_state_is_restored() {
        let before = LearningRateMonitor::new(LrInterval::Step);
        *before.lock() = vec![(0, 0.1), (7, 0.1 + 0.2)];
        let mut after = LearningRateMonitor::new(LrInterval::Step);
        after.restore(&before.saved()).expect("its own");
        assert_eq!(after.rates(), before.rates());
        assert!(after.restore(&SavedState::new()).is_err());
    }
}
