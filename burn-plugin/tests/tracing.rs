//! Tests of burn's own spans in a report.

#![allow(clippy::unwrap_used)]

mod common;

use burn::train::SupervisedTraining;
use burn::train::metric::LossMetric;
use common::{Recorder, alone, items, learner, loader};
use mlprof_burn::prelude::*;
use mlprof_core::tracing_layer::ProfilerLayer;
use tracing_subscriber::prelude::*;

/// Checks the rows of burn's spans. burn's own logger cannot be installed here, because a
/// subscriber is already set.
#[test]
fn burns_spans_are_rows() {
    let _alone = alone();
    tracing_subscriber::registry().with(ProfilerLayer::new().as_actions()).init();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let result = SupervisedTraining::new(directory.path(), loader(items(100)), loader(items(32)))
        .num_epochs(2)
        .metrics((LossMetric::new(),))
        .profiler(recorder.clone())
        .launch(learner(1e-2))
        .unwrap();
    assert!(result.error.is_none());
    recorder.assert_balanced();
    let (train, valid) = (14, 4);
    // Only devices with gradients emit this span: for two tensors of every batch, for its sum that
    // the step reads, and for the model's parameters.
    assert_eq!(recorder.calls("float_from_data"), 2 * train);
    assert_eq!(
        recorder.parent("float_from_data"),
        Some("[_TrainingEpochLoop].train_dataloader_next")
    );
    // The span is asynchronous: it is entered once for polling and once for dropping.
    assert_eq!(recorder.calls("float_into_data"), 2 * train);
    assert_eq!(recorder.calls("float_to_device"), 4);
    // These are waits for the values of the sums, and for the losses on the event thread.
    assert_eq!(recorder.calls("block_on"), train + train + valid);
    assert_eq!(recorder.threads("block_on"), 2);
    let log = std::fs::read_to_string(directory.path().join("experiment.log")).unwrap();
    assert_eq!(log, "", "burn's log has no place");
}
