//! A training loop for frameworks that do not have one: a small counterpart of Lightning's
//! `Trainer`.
//!
//! The user implements a [`TrainModule`]: a training step, which returns the loss, and the choice
//! of an optimizer. A [`Trainer`] runs the loop and measures each part under the name that
//! Lightning uses. Each stage ends with the profiler's report.
//!
//! The plugin of a framework provides its [`TrainOptimizer`]: backward, gradient
//! clipping, the optimizer step, and how a loss is read. The plugins show whole programs; here the
//! "framework" is one number that learns to be 3:
//!
//! ```
//! use mlprof_train::{Optimizers, Result, TrainModule, TrainOptimizer, Trainer, TrainerState};
//!
//! struct Descent { weight: f64, gradient: f64, rate: f64 }
//! impl TrainOptimizer for Descent {
//!     type Loss = f64;
//!     fn loss_value(&self, loss: &f64) -> Result<f64> { Ok(*loss) }
//!     fn zero_grad(&mut self) -> Result<()> { self.gradient = 0.0; Ok(()) }
//!     fn backward(&mut self, _loss: &f64, scale: f64) -> Result<()> {
//!         self.gradient += 2.0 * (self.weight - 3.0) * scale;
//!         Ok(())
//!     }
//!     fn clip_gradients(&mut self, max_norm: f64) -> Result<()> {
//!         self.gradient = self.gradient.clamp(-max_norm, max_norm);
//!         Ok(())
//!     }
//!     fn step(&mut self) -> Result<()> { self.weight -= self.rate * self.gradient; Ok(()) }
//!     fn learning_rate(&self) -> f64 { self.rate }
//!     fn set_learning_rate(&mut self, rate: f64) -> Result<()> { self.rate = rate; Ok(()) }
//! }
//!
//! #[derive(Default)]
//! struct Number { weight: f64 }
//! impl TrainModule for Number {
//!     type Batch = ();
//!     type Optimizer = Descent;
//!     fn configure_optimizers(&mut self) -> Result<Optimizers<Descent>> {
//!         Ok(Descent { weight: 0.0, gradient: 0.0, rate: 0.1 }.into())
//!     }
//!     fn training_step(&mut self, _batch: &(), _trainer: &mut TrainerState) -> Result<f64> {
//!         Ok((self.weight - 3.0).powi(2))
//!     }
//!     fn on_before_zero_grad(
//!         &mut self,
//!         optimizer: &mut Descent,
//!         _: &mut TrainerState,
//!     ) -> Result<()> {
//!         self.weight = optimizer.weight;
//!         Ok(())
//!     }
//! }
//!
//! let mut trainer = Trainer::new().max_epochs(3).profiler("simple").progress_bar(false);
//! let mut number = Number::default();
//! let outcome = trainer.fit(&mut number, &vec![(); 20], None)?; // prints the FIT Profiler Report
//! assert_eq!((outcome.epochs, outcome.steps), (3, 60));
//! assert!((number.weight - 3.0).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A hand-written loop can record the same measurements. It calls
//! `profiler.profile("Optimizer.step")` around the update, and opens a
//! [`Session`](mlprof_core::Session) around the loop for the report.
//!
//! # Measured actions and their order
//!
//! Names follow Lightning, including the prefixes, so that reports can be compared side by side:
//!
//! - `[LightningModule]{Module}.{hook}`: a hook of the user's module.
//! - `[Callback]{name}.{hook}`: a hook of a callback.
//! - `[Strategy]SingleDeviceStrategy.{x}`: work of the strategy.
//! - Names without a prefix: work of the trainer itself.
//!
//! Indentation shows nesting. `on_…` stands for that hook of every callback, followed by the
//! module's.
//!
//! ```text
//! configure_callbacks, prepare_data, setup, configure_model, configure_optimizers, on_fit_start
//! on_sanity_check_start … validation block in separate rows … on_sanity_check_end
//! train_dataloader of the first epoch, on_train_start
//! per epoch: on_train_epoch_start
//!   run_training_epoch
//!     train_dataloader of a later epoch
//!     per batch: [_TrainingEpochLoop].train_dataloader_next, on_before_batch_transfer
//!       [Strategy].batch_to_device { transfer_batch_to_device, on_after_batch_transfer }
//!       on_train_batch_start
//!       run_training_batch
//!         optimizer_step (while gradients accumulate: only forward and backward, no such row)
//!           [Strategy].training_step, on_before_zero_grad, optimizer_zero_grad
//!           [Strategy].backward { on_before_backward, on_after_backward }
//!           rerun_training_batch, if a numerics profiler requests a rerun of the batch
//!           on_before_optimizer_step, configure_gradient_clipping
//!           Optimizer.step: the optimizer's own update, which Lightning does not measure
//!         [Strategy].read_loss, if the loss is due
//!       lr_scheduler_step (of an epoch-wise schedule: after the last batch), on_train_batch_end
//!       on_validation_model_zero_grad and validation block, if a validation is due
//!       lr_scheduler_step, if the schedule follows a metric after each step
//!   on_train_epoch_end
//!   lr_scheduler_step, if the schedule follows a metric after each epoch
//!   save_checkpoint
//! on_train_end, on_fit_end, teardown
//!
//! validation block: val_dataloader, on_validation_model_eval, on_validation_start,
//!   on_validation_epoch_start
//!   per batch: [_EvaluationLoop].val_next, batch transfer, on_validation_batch_start,
//!     [Strategy].validation_step, on_validation_batch_end
//!   on_validation_epoch_end, on_validation_end, on_validation_model_train
//! test and predict blocks: test_ and predict_ instead of val_ and validation_ in all names;
//!   there is no on_predict_model_train
//! ```
//!
//! The guide's page "The trainer and Lightning" compares counts, hooks and settings.
//!
//! *Cost*: with one callback, a training batch has about thirty scopes. The Simple profiler needs
//! about a microsecond for them. Without a profiler, a scope records nothing.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod actions;
mod callbacks;
mod checkpoint;
mod checkpoint_requests;
mod error;
mod evaluation;
mod fetch;
mod fit;
mod hooks;
mod listener;
mod loader;
mod metrics;
mod mode;
mod module;
mod move_to;
mod optimizer;
mod options;
mod outcome;
mod plateau;
mod portion;
mod progress;
mod rerun;
mod restore;
mod resume_point;
mod run;
mod save;
mod saved_state;
mod settings;
mod skip;
mod state;
mod step;
mod trainer;

pub use callbacks::{EarlyStopping, LearningRateMonitor, ModelCheckpoint};
pub use checkpoint::Checkpoint;
pub use error::{BoxError, Position, Result, TrainError};
pub use loader::{DataLoader, EpochContext, loader_fn};
#[doc(hidden)]
pub use loader::{LoaderItem, MakeEpoch};
pub use metrics::{LogOptions, Reduce};
/// Core of mlprof: sessions, profilers and their settings, and reports as values.
pub use mlprof_core;
pub use mode::Mode;
pub use module::{Callback, HookContext, LossOf, TrainModule};
pub use optimizer::{GradientClipAlgorithm, LrInterval, Optimizers, TrainOptimizer};
pub use outcome::{EvaluationOutcome, FitOutcome, StopReason};
pub use plateau::ReduceLrOnPlateau;
pub use portion::Portion;
pub use saved_state::{Dtype, SavedState, SavedTensor};
pub use skip::SkipBatch;
pub use state::TrainerState;
pub use trainer::Trainer;

/// Names that programs with a training loop usually need, with those of [`mlprof_core::prelude`].
///
/// `profile!("name")` measures a scope. `#[profiled]` measures a function, a method, or all methods
/// of an `impl` block.
///
/// ```
/// use mlprof_train::prelude::*;
///
/// #[profiled]
/// fn load() -> u32 {
///     let _scope = profile!("read_file");
///     42
/// }
///
/// let profiler = std::sync::Arc::new(SimpleProfiler::new());
/// let active = activate(profiler.clone()); // receives the scopes of profile! and #[profiled]
/// assert_eq!(load(), 42);
/// drop(active);
/// assert!(profiler.summary().contains("read_file"));
/// ```
pub mod prelude {
    pub use crate::Result as TrainResult;
    pub use crate::{
        Callback, Checkpoint, DataLoader, EpochContext, HookContext, LogOptions, LrInterval,
        Optimizers, Reduce, SavedState, TrainError, TrainModule, TrainOptimizer, Trainer,
        TrainerState, loader_fn,
    };
    pub use mlprof_core::prelude::*;
}
