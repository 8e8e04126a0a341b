//! Hooks that modules and callbacks have in common, listed once.

/// Passes the list to the macro `$consume`, after `[arguments of the call]`: each hook's name, and
/// when it is called.
macro_rules! shared_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            on_fit_start: "Runs when a fit begins. The optimizers are already configured.";
            on_fit_end: "Runs when a fit ends.";
            on_train_start: "Runs when training begins, after the sanity check.";
            on_train_end: "Runs when training ends.";
            on_train_epoch_start: "Runs when a training epoch begins.";
            on_train_epoch_end: "Runs when a training epoch ends, before its checkpoint is saved.";
            on_train_batch_start: "Runs before a training batch, which is already on the device.";
            on_train_batch_end: "Runs after a training batch.";
            on_validation_start: "Runs when a validation begins, inside a fit or alone.";
            on_validation_end: "Runs when a validation ends.";
            on_validation_epoch_start: "Runs when the pass over the validation data begins.";
            on_validation_epoch_end: "Runs when the pass over the validation data ends.";
            on_validation_batch_start: "Runs before a validation batch, which is already on the device.";
            on_validation_batch_end: "Runs after a validation batch.";
            on_test_start: "Runs when a test run begins.";
            on_test_end: "Runs when a test run ends.";
            on_test_epoch_start: "Runs when the pass over the test data begins.";
            on_test_epoch_end: "Runs when the pass over the test data ends.";
            on_test_batch_start: "Runs before a test batch, which is already on the device.";
            on_test_batch_end: "Runs after a test batch.";
            on_predict_start: "Runs when a prediction run begins.";
            on_predict_end: "Runs when a prediction run ends.";
            on_predict_epoch_start: "Runs when the pass over the prediction data begins.";
            on_predict_epoch_end: "Runs when the pass over the prediction data ends.";
            on_predict_batch_start: "Runs before a prediction batch, which is already on the device.";
            on_predict_batch_end: "Runs after a prediction batch.";
            setup: "Runs when a stage begins, after `configure_callbacks` and `prepare_data`.";
            teardown: "Runs last, when a stage ends.";
        }
    };
}

/// The hooks around the optimizer, which pass the optimizer to a module.
macro_rules! optimizer_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            on_before_zero_grad: "Runs before the gradients are cleared.";
            on_before_backward: "Runs before the backward pass. The loss is already computed.";
            on_after_backward: "Runs after the backward pass. Processes that train together average their gradients here.";
            on_before_optimizer_step: "Runs before the optimizer step. The gradients are not clipped yet.";
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

/// Passes the list of hooks that only a module has to `$consume`. These hooks receive only the
/// trainer's state.
macro_rules! module_hooks {
    ($consume:ident $($with:tt)*) => {
        $consume! {
            [$($with)*]
            prepare_data: "Downloads or unpacks data. Runs before `setup`, in one process of each node (local rank 0).";
            configure_model: "Builds parts of the model that are too large to build before the stage is known.";
            on_validation_model_eval: "Runs before a validation. Disable dropout and similar layers here.";
            on_validation_model_train: "Runs after a validation. Enable dropout and similar layers again here.";
            on_test_model_eval: "Runs before a test. Disable dropout and similar layers here.";
            on_test_model_train: "Runs after a test. Enable dropout and similar layers again here.";
            on_predict_model_eval: "Runs before a prediction. Disable dropout and similar layers here.";
        }
    };
}

/// Declares trait methods with empty default bodies.
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
