//! Actions of a run. They are interned before the loop, so that the loop only copies 4-byte
//! handles.

use super::hooks::{callback_hooks, module_hooks, optimizer_hooks, shared_hooks};
use mlprof_core::names::{self, hook};
use mlprof_core::{Action, Stage};

/// Name of the strategy: one process with one device. If several processes train together, each has
/// this strategy.
const STRATEGY: &str = "SingleDeviceStrategy";

/// Declares a struct with an action for each hook of a list.
macro_rules! declare_actions {
    ([$type:ident] $($name:ident: $doc:literal;)*) => {
        #[derive(Clone, Copy)]
        pub(super) struct $type { $(pub(super) $name: Action,)* }

        impl $type {
            fn new(kind: &str, type_name: &str) -> Self {
                Self { $($name: Action::new(&hook(kind, type_name, stringify!($name))),)* }
            }
        }
    };
}

shared_hooks!(declare_actions SharedActions);
optimizer_hooks!(declare_actions OptimizerActions);
module_hooks!(declare_actions ModuleActions);
callback_hooks!(declare_actions SanityCheckActions);

/// Actions of one callback.
#[derive(Clone, Copy)]
pub(super) struct CallbackActions {
    pub(super) shared: SharedActions,
    pub(super) optimizer: OptimizerActions,
    pub(super) sanity_check: SanityCheckActions,
    pub(super) on_exception: Action,
    pub(super) on_save_checkpoint: Action,
    pub(super) on_load_checkpoint: Action,
}

impl CallbackActions {
    pub(super) fn new(name: &str) -> Self {
        let action = |hook_name| Action::new(&hook("Callback", name, hook_name));
        Self {
            shared: SharedActions::new("Callback", name),
            optimizer: OptimizerActions::new("Callback", name),
            sanity_check: SanityCheckActions::new("Callback", name),
            on_exception: action("on_exception"),
            on_save_checkpoint: action("on_save_checkpoint"),
            on_load_checkpoint: action("on_load_checkpoint"),
        }
    }
}

/// Actions of the module, the strategy and the trainer.
#[derive(Clone, Copy)]
pub(super) struct RunActions {
    pub(super) shared: SharedActions,
    pub(super) optimizer: OptimizerActions,
    pub(super) module: ModuleActions,
    pub(super) configure_callbacks: Action,
    pub(super) configure_optimizers: Action,
    pub(super) on_before_batch_transfer: Action,
    pub(super) transfer_batch_to_device: Action,
    pub(super) on_after_batch_transfer: Action,
    pub(super) optimizer_step: Action,
    pub(super) optimizer_update: Action,
    pub(super) optimizer_zero_grad: Action,
    pub(super) on_validation_model_zero_grad: Action,
    pub(super) configure_gradient_clipping: Action,
    pub(super) lr_scheduler_step: Action,
    pub(super) batch_to_device: Action,
    pub(super) training_step: Action,
    pub(super) backward: Action,
    pub(super) read_loss: Action,
    pub(super) run_training_epoch: Action,
    pub(super) run_training_batch: Action,
    pub(super) rerun_training_batch: Action,
    pub(super) save_checkpoint: Action,
    pub(super) on_save_checkpoint: Action,
    pub(super) on_load_checkpoint: Action,
    pub(super) train: LoaderActions,
    pub(super) validate: LoaderActions,
    pub(super) test: LoaderActions,
    pub(super) predict: LoaderActions,
}

/// Actions of one kind of data: making the iterator, waiting for a batch, the step.
#[derive(Clone, Copy)]
pub(super) struct LoaderActions {
    pub(super) dataloader: Action,
    pub(super) next: Action,
    pub(super) step: Action,
}

impl RunActions {
    /// Interns the actions of a module of the type named `module`.
    pub(super) fn new(module: &str) -> Self {
        let of_module = |name| Action::new(&hook("LightningModule", module, name));
        let strategy = |name| Action::new(&hook("Strategy", STRATEGY, name));
        let loader = |name: &str, next, step| LoaderActions {
            dataloader: Action::new(&hook("LightningModule", module, name)),
            next: Action::new(next),
            step: strategy(step),
        };
        Self {
            shared: SharedActions::new("LightningModule", module),
            optimizer: OptimizerActions::new("LightningModule", module),
            module: ModuleActions::new("LightningModule", module),
            configure_callbacks: of_module("configure_callbacks"),
            configure_optimizers: of_module("configure_optimizers"),
            on_before_batch_transfer: of_module("on_before_batch_transfer"),
            transfer_batch_to_device: of_module("transfer_batch_to_device"),
            on_after_batch_transfer: of_module("on_after_batch_transfer"),
            optimizer_step: of_module(names::OPTIMIZER_STEP),
            optimizer_update: Action::new(names::OPTIMIZER_UPDATE),
            on_validation_model_zero_grad: of_module("on_validation_model_zero_grad"),
            optimizer_zero_grad: of_module(names::OPTIMIZER_ZERO_GRAD),
            configure_gradient_clipping: of_module(names::CONFIGURE_GRADIENT_CLIPPING),
            lr_scheduler_step: of_module(names::LR_SCHEDULER_STEP),
            batch_to_device: strategy("batch_to_device"),
            training_step: strategy("training_step"),
            backward: strategy(names::BACKWARD),
            read_loss: strategy("read_loss"),
            run_training_epoch: Action::new(names::RUN_TRAINING_EPOCH),
            run_training_batch: Action::new(names::RUN_TRAINING_BATCH),
            rerun_training_batch: Action::new("rerun_training_batch"),
            save_checkpoint: Action::new(names::SAVE_CHECKPOINT),
            on_save_checkpoint: of_module("on_save_checkpoint"),
            on_load_checkpoint: of_module("on_load_checkpoint"),
            train: loader("train_dataloader", names::TRAIN_DATALOADER_NEXT, "training_step"),
            validate: loader("val_dataloader", names::VAL_NEXT, "validation_step"),
            test: loader("test_dataloader", names::TEST_NEXT, "test_step"),
            predict: loader("predict_dataloader", "[_PredictionLoop].predict_next", "predict_step"),
        }
    }

    /// Returns the actions of the data of a stage.
    pub(super) fn loader(&self, stage: Stage) -> LoaderActions {
        match stage {
            Stage::Fit => self.train,
            Stage::Validate | Stage::SanityCheck => self.validate,
            Stage::Test => self.test,
            Stage::Predict => self.predict,
        }
    }
}

/// Returns the name of a stage's data in messages.
pub(super) fn loader_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Fit => "training",
        Stage::Validate | Stage::SanityCheck => "validation",
        Stage::Test => "test",
        Stage::Predict => "predict",
    }
}
