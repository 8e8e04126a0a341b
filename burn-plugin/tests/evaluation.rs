//! Tests of a profiled evaluation.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use burn::data::dataset::DatasetError;
use burn::train::metric::LossMetric;
use burn::train::{Evaluator, EvaluatorBuilder, EvaluatorComponentTypesMarker};
use common::{Mlp, Recorder, alone, hooked_loader, interrupt, items, learner, loader};
use mlprof_burn::ProfiledMetric;
use mlprof_burn::prelude::*;
use mlprof_core::Stage;

#[test]
fn everything_is_counted_exactly() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let evaluator = EvaluatorBuilder::new(directory.path())
        .with_application_logger(None)
        .profiler(recorder.clone())
        .metrics((LossMetric::new(),))
        .build(learner(1e-2).model())
        .unwrap();
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
        .build(learner(1e-2).model())
        .unwrap();
    assert!(evaluator.eval("test", loader(items(20))).error.is_none());
}

/// Builds an evaluator like user code without a profiler.
fn burns_own(directory: &Path) -> Evaluator<EvaluatorComponentTypesMarker<Mlp>> {
    let builder = EvaluatorBuilder::new(directory).with_application_logger(None);
    builder.metrics((ProfiledMetric::new(LossMetric::new()),)).build(learner(1e-2).model())
}

#[test]
fn an_evaluator_of_burns_own_type_is_profiled() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let result = burns_own(directory.path())
        .profiler(Some(recorder.clone()))
        .unwrap()
        .eval_all([("a", loader(items(100))), ("b", loader(items(20)))]);
    assert!(result.error.is_none());
    recorder.assert_balanced();
    assert_eq!(recorder.stages(), [Stage::Test]);
    assert_eq!(recorder.reports(), 1);
    let expected = BTreeMap::from([
        ("run_test_evaluation", 1),
        ("test_dataloader", 2),
        ("[_EvaluationLoop].test_next", 8 + 3),
        ("run_test_batch", 7 + 2),
        ("[Metric]LossMetric.update", 7 + 2),
    ]);
    assert_eq!(recorder.all_calls(), expected);
    let notes = recorder.notes();
    assert!(notes.iter().any(|note| note.contains("no ops of Device<Flex")), "{notes:?}");
    let not_profiled = burns_own(directory.path()).profiler(None::<&str>).unwrap();
    assert!(not_profiled.eval("test", loader(items(20))).error.is_none());
    let error = burns_own(directory.path()).profiler("smiple").err().unwrap();
    let builder = EvaluatorBuilder::new(directory.path()).profiler("smiple");
    assert_eq!(builder.summary().build(learner(1e-2).model()).err(), Some(error));
}

#[test]
fn an_evaluator_of_burns_own_type_is_ended_by_ctrl_c() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let result = burns_own(directory.path())
        .profiler(recorder.clone())
        .unwrap()
        .on_interrupt(Interrupt::Return)
        .eval("test", hooked_loader(20, interrupt));
    assert!(result.error.unwrap().to_string().contains(mlprof_burn::INTERRUPTED));
    assert_eq!(recorder.calls("run_test_batch"), 2);
    recorder.assert_balanced();
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
            .on_interrupt(Interrupt::Return)
            .build(learner(1e-2).model())
            .unwrap()
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
    assert!(error.contains(mlprof_burn::INTERRUPTED), "{error}");
}
