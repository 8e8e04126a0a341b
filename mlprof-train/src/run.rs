//! A running stage: the module, the callbacks, and the calls of their hooks.

use std::sync::Arc;

use super::actions::{CallbackActions, RunActions};
use super::error::{Result, TrainError};
use super::hooks::{callback_hooks, module_hooks, optimizer_hooks, shared_hooks};
use super::listener::{self, Listener, Selection};
use super::module::{Callback, HookContext, LossOf, TrainModule};
use super::optimizer::{LrInterval, Optimizers};
use super::outcome::StopReason;
use super::settings::Settings;
use super::state::TrainerState;
use mlprof_core::{Profiler, ProfilerExt, Session};
use mlprof_events::clock::Stopwatch;

/// A running stage.
pub(super) struct Run<'run, M: TrainModule> {
    pub(super) profiler: Arc<dyn Profiler>,
    pub(super) settings: &'run Settings,
    pub(super) module: &'run mut M,
    /// The optimizer of a fit, from its configuration on.
    pub(super) optimizers: Option<Optimizers<M::Optimizer>>,
    /// Batch that is on the device.
    pub(super) batch: Option<M::Batch>,
    /// Loss of the training batch.
    pub(super) loss: Option<LossOf<M>>,
    /// `true` if a backward pass ran since the gradients were cleared.
    pub(super) has_gradients: bool,
    pub(super) listeners: Vec<Listener<'run, M>>,
    pub(super) actions: RunActions,
    pub(super) state: TrainerState,
    pub(super) session: &'run Session,
    pub(super) began: Stopwatch,
}

/// Declares methods that call and measure a hook of all callbacks, then of the module. At the end
/// of a training epoch, callbacks that watch metrics are called after the module, which may log a
/// metric there.
macro_rules! call_shared_hooks {
    ([] $($name:ident: $doc:literal;)*) => {$(
        pub(super) fn $name(&mut self) -> Result<(), TrainError> {
            let monitors_last = stringify!($name) == "on_train_epoch_end";
            let call = |run: &mut Self, which| {
                run.call_listeners(
                    stringify!($name),
                    which,
                    |actions| actions.shared.$name,
                    |callback, context, state| callback.$name(context, state),
                )
            };
            call(self, if monitors_last { Selection::Others } else { Selection::All })?;
            let result = {
                let _scope = self.profiler.profile(self.actions.shared.$name);
                self.module.$name(&mut self.state)
            };
            failed_in(stringify!($name), &self.state, result)?;
            if monitors_last {
                call(self, Selection::Monitors)?;
            }
            self.serve_requests()
        }
    )*};
}

/// The hooks of callbacks, then of the module, to which they pass its optimizer. Each is measured.
macro_rules! call_optimizer_hooks {
    ([] $($name:ident: $doc:literal;)*) => {$(
        pub(super) fn $name(&mut self) -> Result<(), TrainError> {
            self.call_listeners(
                stringify!($name),
                Selection::All,
                |actions| actions.optimizer.$name,
                |callback, context, state| callback.$name(context, state),
            )?;
            let _scope = self.profiler.profile(self.actions.optimizer.$name);
            let optimizer = configured(&mut self.optimizers);
            let result = self.module.$name(optimizer, &mut self.state);
            failed_in(stringify!($name), &self.state, result)
        }
    )*};
}

/// The callbacks' own hooks, each measured.
macro_rules! call_callback_hooks {
    ([] $($name:ident: $doc:literal;)*) => {$(
        pub(super) fn $name(&mut self) -> Result<(), TrainError> {
            self.call_listeners(
                stringify!($name),
                Selection::All,
                |actions| actions.sanity_check.$name,
                |callback, context, state| callback.$name(context, state),
            )
        }
    )*};
}

/// Declares methods that call and measure a hook that only the module has.
macro_rules! call_module_hooks {
    ([] $($name:ident: $doc:literal;)*) => {$(
        pub(super) fn $name(&mut self) -> Result<(), TrainError> {
            let _scope = self.profiler.profile(self.actions.module.$name);
            let result = self.module.$name(&mut self.state);
            failed_in(stringify!($name), &self.state, result)
        }
    )*};
}

impl<M: TrainModule> Run<'_, M> {
    shared_hooks!(call_shared_hooks);
    optimizer_hooks!(call_optimizer_hooks);
    module_hooks!(call_module_hooks);
    callback_hooks!(call_callback_hooks);

    /// Passes `error`, which ends the stage, to every callback.
    pub(super) fn on_exception(&mut self, error: &TrainError) {
        // No callback fails here.
        let _ = self.call_listeners(
            "on_exception",
            Selection::All,
            |actions| actions.on_exception,
            |callback, context, state| {
                callback.on_exception(error, context, state);
                Ok(())
            },
        );
    }

    pub(super) fn call_listeners(
        &mut self,
        hook: &'static str,
        which: Selection,
        action: impl Fn(&CallbackActions) -> mlprof_core::Action,
        mut call: impl FnMut(
            &mut dyn Callback<M>,
            &mut HookContext<'_, M>,
            &mut TrainerState,
        ) -> Result<()>,
    ) -> Result<(), TrainError> {
        let called =
            self.listeners.iter_mut().filter(|listener| which.includes(listener.is_monitor));
        for listener in called {
            let _scope = self.profiler.profile(action(&listener.actions));
            let mut context = HookContext {
                module: &mut *self.module,
                optimizer: self.optimizers.as_mut().map(|all| &mut all.optimizer),
                batch: self.batch.as_ref(),
                loss: self.loss.as_ref(),
            };
            let result = call(listener.callback(), &mut context, &mut self.state);
            result.map_err(|source| TrainError::Callback {
                callback: listener.name.clone(),
                hook,
                position: self.state.position(),
                source,
            })?;
        }
        Ok(())
    }

    /// Begins a stage. Calls `seed_everything` if there is a seed, `configure_callbacks`,
    /// `prepare_data` (once per node), `setup` and `configure_model`.
    pub(super) fn begin(&mut self) -> Result<(), TrainError> {
        if let Some(seed) = self.state.seed {
            failed_in("seed_everything", &self.state, self.module.seed_everything(seed))?;
        }
        {
            let _scope = self.profiler.profile(self.actions.configure_callbacks);
            let own = self.module.configure_callbacks();
            self.listeners.extend(own.into_iter().map(Listener::owned));
            listener::sort(&mut self.listeners);
        }
        if self.state.run.local_rank == 0 {
            self.prepare_data()?;
        }
        self.setup()?;
        self.configure_model()
    }

    pub(super) fn configure_optimizers(&mut self) -> Result<(), TrainError> {
        let _scope = self.profiler.profile(self.actions.configure_optimizers);
        let result = self.module.configure_optimizers();
        let mut optimizers = failed_in("configure_optimizers", &self.state, result)?;
        let rate = failed_in("configure_optimizers", &self.state, optimizers.begin())?;
        self.state.learning_rate = Some(rate);
        self.optimizers = Some(optimizers);
        Ok(())
    }

    pub(super) fn on_validation_model_zero_grad(&mut self) -> Result<(), TrainError> {
        let _scope = self.profiler.profile(self.actions.on_validation_model_zero_grad);
        let optimizer = configured(&mut self.optimizers);
        let result = self.module.on_validation_model_zero_grad(optimizer, &mut self.state);
        failed_in("on_validation_model_zero_grad", &self.state, result)
    }

    /// Moves a batch to the device and calls the hooks before and after.
    pub(super) fn batch_to_device(&mut self, batch: M::Batch) -> Result<M::Batch, TrainError> {
        let batch = {
            let _scope = self.profiler.profile(self.actions.on_before_batch_transfer);
            let result = self.module.on_before_batch_transfer(batch, &mut self.state);
            failed_in("on_before_batch_transfer", &self.state, result)?
        };
        let _strategy = self.profiler.profile(self.actions.batch_to_device);
        let batch = {
            let _scope = self.profiler.profile(self.actions.transfer_batch_to_device);
            let result = self.module.transfer_batch_to_device(batch, &mut self.state);
            failed_in("transfer_batch_to_device", &self.state, result)?
        };
        let _scope = self.profiler.profile(self.actions.on_after_batch_transfer);
        let result = self.module.on_after_batch_transfer(batch, &mut self.state);
        failed_in("on_after_batch_transfer", &self.state, result)
    }

    /// Advances the schedule if it uses `interval` and does not follow a metric.
    pub(super) fn lr_scheduler_step(&mut self, interval: LrInterval) -> Result<(), TrainError> {
        let Some(optimizers) = &mut self.optimizers else { return Ok(()) };
        if !optimizers.has_schedule(interval, false) {
            return Ok(());
        }
        let _scope = self.profiler.profile(self.actions.lr_scheduler_step);
        let done = match interval {
            LrInterval::Epoch => self.state.epoch + 1,
            LrInterval::Step => self.state.global_step,
        };
        let rate = failed_in("lr_scheduler_step", &self.state, optimizers.schedule_step(done))?;
        self.state.learning_rate = Some(rate);
        Ok(())
    }

    /// Advances the schedule if it uses `interval` and follows a metric.
    pub(super) fn plateau_step(&mut self, interval: LrInterval) -> Result<(), TrainError> {
        let Some(optimizers) = &mut self.optimizers else { return Ok(()) };
        if !optimizers.has_schedule(interval, true) {
            return Ok(());
        }
        let _scope = self.profiler.profile(self.actions.lr_scheduler_step);
        let result = optimizers.plateau_step(self.state.metrics_of_passes().all());
        self.state.learning_rate = Some(failed_in("lr_scheduler_step", &self.state, result)?);
        Ok(())
    }

    /// Returns whether the fit ends before the next batch. *Cost*: a relaxed load, and a clock
    /// reading if there is a [`max_time`](super::Trainer::max_time).
    pub(super) fn should_stop(&mut self) -> bool {
        let is_enough = |max| self.state.global_step >= max;
        let reason = if self.session.is_interrupted() {
            Some(StopReason::Interrupted)
        } else if self.settings.max_steps.is_some_and(is_enough) {
            Some(StopReason::MaxSteps)
        } else {
            self.requested_stop()
        };
        if let Some(reason) = reason {
            self.state.stop.get_or_insert(reason);
        }
        self.state.stop.is_some()
    }

    /// Returns the reason for which the module, a callback or the time limit ends the fit, once the
    /// least number of epochs and steps is done.
    pub(super) fn requested_stop(&self) -> Option<StopReason> {
        let settings = self.settings;
        if self.state.epochs_run < settings.min_epochs.unwrap_or(0)
            || self.state.global_step < settings.min_steps
        {
            return None;
        }
        let is_over = |max| self.began.elapsed() >= max;
        match self.state.stop_request.get() {
            Some(reason) => Some(StopReason::Requested(reason.clone())),
            None => settings.max_time.is_some_and(is_over).then_some(StopReason::MaxTime),
        }
    }
}

/// Returns the optimizer of a fit.
pub(super) fn configured<O>(optimizers: &mut Option<Optimizers<O>>) -> &mut O {
    let optimizers = optimizers.as_mut();
    &mut optimizers.expect("optimizers are configured before the first batch").optimizer
}

/// Converts an error of the module into a [`TrainError`] with the hook and the place in the run.
pub(super) fn failed_in<T>(
    hook: &'static str,
    state: &TrainerState,
    result: Result<T>,
) -> Result<T, TrainError> {
    result.map_err(|source| TrainError::Module { hook, position: state.position(), source })
}
