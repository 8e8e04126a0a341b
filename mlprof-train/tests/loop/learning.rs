//! Effects of the loop on weights, losses and gradients.

use mlprof_core::{AdvancedProfiler, IntoProfiler, Profiler};
use mlprof_train::{LrInterval, StopReason};
use std::sync::Arc;

use crate::toy::{Triple, inputs, trainer};

fn losses_with(profiler: Arc<dyn Profiler>) -> Vec<f64> {
    let mut triple = Triple::default();
    let mut trainer = trainer().profiler(profiler).gradient_clip_val(0.5);
    trainer.fit(&mut triple, &inputs(20), Some(&inputs(3))).expect("trained");
    triple.losses
}

#[test]
fn a_profiler_changes_no_loss() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let quiet = AdvancedProfiler::new().dirpath(directory.path()).filename("toy");
    let without = losses_with("none".into_profiler().expect("a name"));
    assert_eq!(without.len(), 60);
    assert!(without[0] > without[20] && without[20] > without[40], "it learns: {without:?}");
    assert_eq!(without, losses_with("simple".into_profiler().expect("simple")));
    assert_eq!(without, losses_with(Arc::new(quiet)));
}

#[test]
fn accumulated_gradients_are_those_of_the_mean() {
    let mut alone = Triple { rate: Some(1e-9), ..Triple::default() };
    trainer().max_epochs(1).fit(&mut alone, &inputs(4), None).expect("trained");
    let mut together = Triple { rate: Some(1e-9), ..Triple::default() };
    trainer()
        .max_epochs(1)
        .accumulate_grad_batches(4)
        .fit(&mut together, &inputs(4), None)
        .expect("trained");
    let mean = alone.gradients.iter().sum::<f64>() / 4.0;
    assert_eq!(together.gradients.len(), 1);
    assert!((together.gradients[0] - mean).abs() < 1e-6, "{} {mean}", together.gradients[0]);
}

#[test]
fn gradients_are_clipped_before_the_step() {
    let mut triple = Triple { rate: Some(1.0), ..Triple::default() };
    let mut trainer = trainer().max_epochs(1).gradient_clip_val(0.25);
    trainer.fit(&mut triple, &vec![1.0; 4], None).expect("trained");
    assert!(triple.gradients[0] < -5.0, "not clipped before the hook: {}", triple.gradients[0]);
    assert_eq!(triple.weight.get(), 1.0, "four steps of 0.25");
}

#[test]
fn learning_rates_follow_their_schedule() {
    let rates = |interval| {
        let mut triple = Triple { schedule: Some(interval), ..Triple::default() };
        trainer().max_epochs(2).fit(&mut triple, &inputs(2), None).expect("trained");
        triple.rates
    };
    assert_eq!(rates(LrInterval::Step), [0.05, 0.05 / 2.0, 0.05 / 3.0, 0.05 / 4.0]);
    assert_eq!(rates(LrInterval::Epoch), [0.05, 0.05, 0.05 / 2.0, 0.05 / 2.0]);
}

#[test]
fn checkpoints_are_saved_after_every_epoch() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let checkpoints = directory.path().join("checkpoints");
    let mut triple = Triple::default();
    let mut trainer = trainer().checkpoint_dir(&checkpoints);
    trainer.fit(&mut triple, &inputs(5), None).expect("trained");
    let mut names: Vec<_> = std::fs::read_dir(&checkpoints)
        .expect("directory")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    assert_eq!(names, ["epoch=0-step=5.txt", "epoch=1-step=10.txt", "epoch=2-step=15.txt"]);
    let last = std::fs::read_to_string(checkpoints.join(&names[2])).expect("checkpoint");
    assert_eq!(last, triple.weight.get().to_string());
}

#[test]
fn means_of_validation_are_in_the_outcome() {
    let mut triple = Triple::default();
    let outcome = trainer().fit(&mut triple, &inputs(5), Some(&inputs(3))).expect("trained");
    assert_eq!(outcome.stopped, StopReason::MaxEpochs);
    let error = triple.weight.get() - 3.0;
    let expected: f64 = inputs(3).iter().map(|input| (error * input).powi(2)).sum::<f64>() / 3.0;
    assert!((outcome.metrics["val_loss"] - expected).abs() < 1e-12);
    assert!(outcome.metrics.contains_key("train_loss"));
}
