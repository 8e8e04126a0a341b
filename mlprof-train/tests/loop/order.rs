//! Order and nesting of the measured actions.

use std::sync::Arc;

use mlprof_train::{Callback, LrInterval, TrainModule};

use crate::toy::{Transcript, Triple, inputs, trainer};

struct Silent;

impl<M: TrainModule> Callback<M> for Silent {}

/// Returns the hooks of one event: the callback's, then the module's.
fn both(depth: usize, hook: &str) -> String {
    let indent = "  ".repeat(depth);
    format!("{indent}[Callback]Silent.{hook}\n{indent}[LightningModule]Triple.{hook}\n")
}

fn module(depth: usize, hook: &str) -> String {
    format!("{}[LightningModule]Triple.{hook}\n", "  ".repeat(depth))
}

fn plain(depth: usize, name: &str) -> String {
    format!("{}{name}\n", "  ".repeat(depth))
}

fn strategy(depth: usize, name: &str) -> String {
    format!("{}[Strategy]SingleDeviceStrategy.{name}\n", "  ".repeat(depth))
}

fn transfer(depth: usize) -> String {
    module(depth, "on_before_batch_transfer")
        + &strategy(depth, "batch_to_device")
        + &module(depth + 1, "transfer_batch_to_device")
        + &module(depth + 1, "on_after_batch_transfer")
}

fn validation(depth: usize) -> String {
    module(depth, "val_dataloader")
        + &module(depth, "on_validation_model_eval")
        + &both(depth, "on_validation_start")
        + &both(depth, "on_validation_epoch_start")
        + &plain(depth, "[_EvaluationLoop].val_next")
        + &transfer(depth)
        + &both(depth, "on_validation_batch_start")
        + &strategy(depth, "validation_step")
        + &both(depth, "on_validation_batch_end")
        + &both(depth, "on_validation_epoch_end")
        + &both(depth, "on_validation_end")
        + &module(depth, "on_validation_model_train")
}

fn training_batch() -> String {
    plain(1, "[_TrainingEpochLoop].train_dataloader_next")
        + &transfer(1)
        + &both(1, "on_train_batch_start")
        + &plain(1, "run_training_batch")
        + &module(2, "optimizer_step")
        + &strategy(3, "training_step")
        + &both(3, "on_before_zero_grad")
        + &module(3, "optimizer_zero_grad")
        + &strategy(3, "backward")
        + &both(4, "on_before_backward")
        + &both(4, "on_after_backward")
        + &both(3, "on_before_optimizer_step")
        + &module(3, "configure_gradient_clipping")
        + &plain(3, "Optimizer.step")
        + &strategy(2, "read_loss")
        + &module(1, "lr_scheduler_step")
        + &both(1, "on_train_batch_end")
}

#[test]
fn a_fit_runs_its_hooks_in_lightnings_order() {
    let transcript = Arc::new(Transcript::default());
    let directory = tempfile::tempdir().expect("temporary directory");
    let mut trainer = trainer()
        .profiler(transcript.clone())
        .callback(Silent)
        .checkpoint_dir(directory.path())
        .max_epochs(1);
    let mut module_ = Triple { schedule: Some(LrInterval::Step), ..Triple::default() };
    trainer.fit(&mut module_, &inputs(1), Some(&inputs(1))).expect("trained");

    let expected = module(0, "configure_callbacks")
        + &module(0, "prepare_data")
        + &both(0, "setup")
        + &module(0, "configure_model")
        + &module(0, "configure_optimizers")
        + &both(0, "on_fit_start")
        + &plain(0, "[Callback]Silent.on_sanity_check_start")
        + &validation(0)
        + &plain(0, "[Callback]Silent.on_sanity_check_end")
        + &module(0, "train_dataloader")
        + &both(0, "on_train_start")
        + &both(0, "on_train_epoch_start")
        + &plain(0, "run_training_epoch")
        + &training_batch()
        + &module(1, "on_validation_model_zero_grad")
        + &validation(1)
        + &both(0, "on_train_epoch_end")
        + &plain(0, "save_checkpoint")
        + &both(0, "on_train_end")
        + &both(0, "on_fit_end")
        + &both(0, "teardown");
    assert_eq!(transcript.text(), expected);
}

#[test]
fn a_test_run_has_the_same_hooks_under_test_names() {
    let transcript = Arc::new(Transcript::default());
    let mut trainer = trainer().profiler(transcript.clone()).callback(Silent);
    trainer.test(&mut Triple::default(), &inputs(1)).expect("tested");
    let block = validation(0)
        .replace("validation", "test")
        .replace("val_dataloader", "test_dataloader")
        .replace("val_next", "test_next");
    let expected = module(0, "configure_callbacks")
        + &module(0, "prepare_data")
        + &both(0, "setup")
        + &module(0, "configure_model")
        + &block
        + &both(0, "teardown");
    assert_eq!(transcript.text(), expected);
}

#[test]
fn a_prediction_has_the_same_hooks_under_predict_names() {
    let transcript = Arc::new(Transcript::default());
    let mut trainer = trainer().profiler(transcript.clone()).callback(Silent);
    trainer.predict(&mut Triple::default(), &inputs(1)).expect("predicted");
    let text = transcript.text();
    for name in [
        "[LightningModule]Triple.predict_dataloader\n",
        "[_PredictionLoop].predict_next\n",
        "[Strategy]SingleDeviceStrategy.predict_step\n",
        "[Callback]Silent.on_predict_batch_end\n",
        "[LightningModule]Triple.on_predict_model_eval\n",
    ] {
        assert_eq!(text.matches(name).count(), 1, "{name} in {text}");
    }
    assert!(!text.contains("validation") && !text.contains("test"), "{text}");
}
