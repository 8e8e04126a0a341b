//! A profiled evaluation.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use burn::data::dataset::DatasetError;
use burn::train::EvaluatorBuilder;
use burn::train::metric::LossMetric;
use burn_plugin::prelude::*;
use common::{Recorder, alone, hooked_loader, interrupt, items, learner, loader};
use profiler_core::Stage;

#[test]
fn everything_is_counted_exactly() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let evaluator = EvaluatorBuilder::new(directory.path())
        .with_application_logger(None)
        .profiler(recorder.clone())
        .unwrap()
        .metrics((LossMetric::new(),))
        .build(learner(1e-2).model());
    let result = evaluator.eval_all([("a", loader(items(100))), ("b", loader(items(20)))]);
    assert!(result.error.is_none());
    recorder.assert_balanced();
    assert_eq!(recorder.stages(), [Stage::Test]);
    assert_eq!(recorder.reports(), 1);
    let expected = BTreeMap::from([
        ("run_test_evaluation", 1),
        ("test_dataloader", 2),
        ("[_EvaluationLoop].test_next", 8 + 3),
        ("run_test_batch", 7 + 2),
        ("[InferenceStep]Mlp.test_step", 7 + 2),
        ("[Metric]LossMetric.update", 7 + 2),
    ]);
    assert_eq!(recorder.all_calls(), expected);
    assert_eq!(recorder.parent("[InferenceStep]Mlp.test_step"), Some("run_test_batch"));
}

#[test]
fn without_a_profiler_the_result_is_burns() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let evaluator = EvaluatorBuilder::new(directory.path())
        .with_application_logger(None)
        .metrics((LossMetric::new(),))
        .profiler(None::<&str>)
        .unwrap()
        .build(learner(1e-2).model());
    assert!(evaluator.eval("test", loader(items(20))).error.is_none());
}

#[test]
fn errors_and_ctrl_c_still_give_a_report() {
    let _alone = alone();
    let evaluate = |hook: fn() -> Result<(), DatasetError>| {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::new();
        let result = EvaluatorBuilder::new(directory.path())
            .with_application_logger(None)
            .profiler(recorder.clone())
            .unwrap()
            .build(learner(1e-2).model())
            .eval("test", hooked_loader(20, hook));
        recorder.assert_balanced();
        assert_eq!(recorder.reports(), 1);
        (recorder.calls("run_test_batch"), result.error.unwrap().to_string())
    };
    let (batches, error) = evaluate(|| Err(DatasetError::new(std::io::Error::other("bad disk"))));
    assert_eq!(batches, 1);
    assert!(error.contains("bad disk"), "{error}");
    let (batches, error) = evaluate(interrupt);
    assert_eq!(batches, 2);
    assert!(error.contains(burn_plugin::INTERRUPTED), "{error}");
}
