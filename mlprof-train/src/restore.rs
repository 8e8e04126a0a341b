//! Resuming from a checkpoint.

use std::path::Path;

use mlprof_core::ProfilerExt;

use crate::checkpoint::{Checkpoint, METRICS, OPTIMIZER, RANDOM, SCHEDULE, TRAINER};
use crate::error::{Result, TrainError};
use crate::listener::Selection;
use crate::module::TrainModule;
use crate::optimizer::{LrInterval, TrainOptimizer};
use crate::resume_point::ResumePoint;
use crate::run::{Run, configured, failed_in};
use crate::save::UNAVAILABLE;
use crate::saved_state::SavedState;

/// State of the loop itself.
struct LoopState {
    point: ResumePoint,
    global_step: usize,
    epochs_run: usize,
    seed: Option<u64>,
    loss: Option<f64>,
    learning_rate: f64,
    metrics: Vec<(String, f64)>,
}

impl LoopState {
    fn of(checkpoint: &Checkpoint) -> Result<Self> {
        let own = checkpoint.required(TRAINER)?;
        let metrics = checkpoint.section(METRICS).into_iter().flat_map(|metrics| {
            metrics.values().map(|(name, _)| Ok((name.to_owned(), metrics.get(name)?)))
        });
        Ok(Self {
            point: ResumePoint {
                epoch: own.get("epoch")?,
                batch: own.get("batch")?,
                is_validated: own.get("is_validated")?,
                is_plateau_due: own.get("is_plateau_due")?,
                earlier_batches: own.get("earlier_batches")?,
            },
            global_step: own.get("global_step")?,
            epochs_run: own.get("epochs_run")?,
            seed: own.get_option("seed")?,
            loss: own.get_option("loss")?,
            learning_rate: own.get("learning_rate")?,
            metrics: metrics.collect::<Result<_>>()?,
        })
    }
}

/// Checkpoint that has been read and checked.
pub(crate) struct Resumed<'path> {
    path: &'path Path,
    checkpoint: Checkpoint,
    own: LoopState,
}

impl Resumed<'_> {
    fn error(&self, source: crate::BoxError) -> TrainError {
        TrainError::Resume { path: self.path.to_owned(), source }
    }
}

impl<M: TrainModule> Run<'_, M> {
    /// Reads a checkpoint. It restores only the seed, which is needed before everything else.
    pub(crate) fn read_checkpoint<'path>(
        &mut self,
        path: &'path Path,
    ) -> Result<Resumed<'path>, TrainError> {
        let read = || -> Result<Resumed<'path>> {
            let checkpoint = Checkpoint::read(path)?;
            let own = LoopState::of(&checkpoint)?;
            checkpoint.weights()?;
            let optimizer = checkpoint.required(OPTIMIZER)?;
            if let Some(reason) = optimizer.get_option::<String>(UNAVAILABLE)? {
                return Err(format!("it has no optimizer state: {reason}").into());
            }
            Ok(Resumed { path, checkpoint, own })
        };
        let resumed =
            read().map_err(|source| TrainError::Resume { path: path.to_owned(), source })?;
        self.state.seed = resumed.own.seed;
        Ok(resumed)
    }

    /// Restores the training. An error leaves module and callbacks unchanged: each part checks its
    /// whole state before it changes anything. The weights come last, because other code can see
    /// them.
    pub(crate) fn restore(&mut self, resumed: Resumed<'_>) -> Result<(), TrainError> {
        let mut earlier = Vec::new();
        let applied = self.apply(&resumed, &mut earlier);
        if let Err(error) = applied {
            for (place, state) in earlier {
                // The callback has just returned this state, so it accepts it.
                let _ = self.listeners[place].callback().load_state(&state);
            }
            return Err(resumed.error(error));
        }
        self.on_load_checkpoint(&resumed.checkpoint)?;
        let own = resumed.own;
        self.state.resume_point = own.point;
        self.state.epoch = own.point.epoch;
        self.state.global_step = own.global_step;
        self.state.loss = own.loss;
        self.state.epochs_run = own.epochs_run;
        self.state.batches_run = own.point.earlier_batches + own.point.batch;
        for (name, value) in own.metrics {
            self.state.set_metric(&name, value);
        }
        self.state.learning_rate = Some(configured(&mut self.optimizers).learning_rate());
        if own.point.is_plateau_due {
            self.plateau_step(LrInterval::Epoch)?;
            self.state.resume_point.is_plateau_due = false;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        resumed: &Resumed<'_>,
        earlier: &mut Vec<(usize, SavedState)>,
    ) -> Result<()> {
        let Resumed { checkpoint, own, .. } = resumed;
        let optimizers = self.optimizers.as_mut().ok_or("there is no optimizer")?;
        optimizers.optimizer.load_state(checkpoint.required(OPTIMIZER)?)?;
        if let Some(schedule) = checkpoint.section(SCHEDULE) {
            optimizers.load_schedule_state(schedule)?;
        }
        let rate = own.learning_rate;
        // The optimizer has already restored its rates. Setting one rate would overwrite the
        // different rates of its parameter groups.
        if rate.to_bits() != optimizers.optimizer.learning_rate().to_bits() {
            optimizers.optimizer.set_learning_rate(rate)?;
        }
        for (key, place) in self.callback_sections() {
            let Some(state) = checkpoint.section(&key) else { continue };
            let callback = self.listeners[place].callback();
            let before = callback.state();
            let loaded = callback.load_state(state);
            earlier.push((place, before));
            loaded.map_err(|reason| format!("{key}: {reason}"))?;
        }
        // The file contains the generator state of rank 0. Each rank draws different numbers, so
        // only rank 0 restores it.
        if let (Some(random), 0) = (checkpoint.section(RANDOM), self.state.run.rank) {
            configured(&mut self.optimizers).load_random_state(random)?;
        }
        self.module.load_weights(checkpoint.weights()?)
    }

    fn on_load_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), TrainError> {
        self.call_listeners(
            "on_load_checkpoint",
            Selection::All,
            |actions| actions.on_load_checkpoint,
            |callback, context, state| callback.on_load_checkpoint(checkpoint, context, state),
        )?;
        let _scope = self.profiler.profile(self.actions.on_load_checkpoint);
        let result = self.module.on_load_checkpoint(checkpoint, &mut self.state);
        failed_in("on_load_checkpoint", &self.state, result)
    }
}
