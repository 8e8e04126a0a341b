//! The hooks that modules and callbacks have in common, listed once.

/// Passes the list to the macro `$consume`, after `[arguments of the call]`: each hook's name, and
/// when it is called.
macro_rules! shared_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            on_fit_start: "A fit begins; optimizers are configured.";
            on_fit_end: "A fit ends.";
            on_train_start: "Training begins, after the sanity check.";
            on_train_end: "Training ends.";
            on_train_epoch_start: "A training epoch begins.";
            on_train_epoch_end: "A training epoch ends, before its checkpoint is saved.";
            on_train_batch_start: "A training batch is on the device.";
            on_train_batch_end: "A training batch is done.";
            on_validation_start: "Validation begins, inside a fit or alone.";
            on_validation_end: "Validation ends.";
            on_validation_epoch_start: "The pass over the validation data begins.";
            on_validation_epoch_end: "The pass over the validation data ends.";
            on_validation_batch_start: "A validation batch is on the device.";
            on_validation_batch_end: "A validation batch is done.";
            on_test_start: "A test run begins.";
            on_test_end: "A test run ends.";
            on_test_epoch_start: "The pass over the test data begins.";
            on_test_epoch_end: "The pass over the test data ends.";
            on_test_batch_start: "A test batch is on the device.";
            on_test_batch_end: "A test batch is done.";
            on_predict_start: "A prediction run begins.";
            on_predict_end: "A prediction run ends.";
            on_predict_epoch_start: "The pass over the data begins.";
            on_predict_epoch_end: "The pass over the data ends.";
            on_predict_batch_start: "A batch is on the device.";
            on_predict_batch_end: "A batch is done.";
            setup: "A stage begins: before everything else but `configure_callbacks` and `prepare_data`.";
            teardown: "A stage ends, last of all.";
        }
    };
}

/// The hooks around the optimizer, which pass the optimizer to a module.
macro_rules! optimizer_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            on_before_zero_grad: "Gradients are about to be cleared.";
            on_before_backward: "The loss is computed; backward comes next.";
            on_after_backward: "Gradients are computed. Processes that train together average them here.";
            on_before_optimizer_step: "The optimizer is about to step; gradients are not clipped yet.";
        }
    };
}

/// Hooks that only a callback has.
macro_rules! callback_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            on_sanity_check_start: "The sanity check begins.";
            on_sanity_check_end: "The sanity check ends.";
        }
    };
}

/// Hooks that only a module has and that take no more than the trainer.
macro_rules! module_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            prepare_data: "Download or unpack data: called first, by one process of each node (local rank 0).";
            configure_model: "Build what is too large to be built before the stage is known.";
            on_validation_model_eval: "Validation is about to begin: turn dropout and similar layers off.";
            on_validation_model_train: "Validation is over: turn dropout and similar layers on again.";
            on_test_model_eval: "A test is about to begin: turn dropout and similar layers off.";
            on_test_model_train: "A test is over: turn dropout and similar layers on again.";
            on_predict_model_eval: "Prediction is about to begin: turn dropout and similar layers off.";
        }
    };
}

/// Methods of a trait with an empty default.
macro_rules! plain_methods {
    ([] $($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// An error ends the stage, after its report.
        fn $name(&mut self, trainer: &mut $crate::TrainerState) -> $crate::Result<()> {
            let _ = trainer;
            Ok(())
        }
    )*};
}

pub(super) use {callback_hooks, module_hooks, optimizer_hooks, plain_methods, shared_hooks};
