//! Tests of step durations, as reported by the loop. The results must equal those of the Simple
//! profiler.

use std::time::Duration;

use super::{function, profile, row};
use crate::report::AdvancedReport;
use crate::report::steps::StepEntry;
use crate::{Action, AdvancedProfiler, Profiler, ProfilerExt, RunContext, Stage};

fn spend(profiler: &AdvancedProfiler, action: Action, milliseconds: u64) {
    let _scope = profiler.profile(action);
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Trains one step. The optimizer's step encloses the forward and backward passes, and both call
/// functions.
fn train(profiler: &AdvancedProfiler, forward: u64) {
    spend(profiler, Action::new("[_TrainingEpochLoop].train_dataloader_next"), 4);
    let batch = profiler.profile("run_training_batch");
    let step = profiler.profile("optimizer_step");
    {
        let _forward = profiler.profile("training_step");
        spend(profiler, function("embedding.forward", 7), forward);
    }
    spend(profiler, Action::new("[Strategy]Own.backward"), 6);
    spend(profiler, function("clip", 8), 2);
    drop(step);
    drop(batch);
    profiler.step();
}

fn total(report: &AdvancedReport, action: &str) -> f64 {
    profile(report, action).total_seconds
}

fn same(one: f64, other: f64) {
    assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
}

#[test]
fn each_step_has_its_time_and_its_parts() {
    let profiler = AdvancedProfiler::new();
    profiler.setup(Stage::Fit, &RunContext::default());
    for step in 0..4 {
        train(&profiler, if step == 2 { 40 } else { 5 });
        profiler.pause();
        // The same function is called from another place. This call is part of a validation and not
        // of a step.
        spend(&profiler, Action::new("[Strategy]Own.validation_step"), 3);
        profiler.step();
        profiler.resume();
    }
    let report = profiler.snapshot();
    let all = &report.step_series;
    let stages: Vec<_> = all.iter().map(|series| (series.stage, series.steps)).collect();
    assert_eq!(stages, [(Some(Stage::Fit), 4), (Some(Stage::Validate), 4)]);
    let sum = |part: fn(&StepEntry) -> f64| all[0].entries.iter().map(part).sum::<f64>();
    for (number, entry) in all[0].entries.iter().enumerate() {
        assert_eq!((entry.number, entry.count), (number as u64, 1));
        let parts = entry.data_seconds
            + entry.forward_seconds
            + entry.backward_seconds
            + entry.optimizer_seconds
            + entry.other_seconds;
        same(parts, entry.seconds);
        assert!(entry.forward_seconds >= if number == 2 { 0.04 } else { 0.005 }, "{entry:?}");
        // The step begins with the first call that represents a part, which is the very first call
        // here.
        assert!(entry.data_seconds >= 0.004 && entry.seconds >= 0.017, "{entry:?}");
    }
    same(sum(|entry| entry.forward_seconds), total(&report, "training_step"));
    same(sum(|entry| entry.backward_seconds), total(&report, "[Strategy]Own.backward"));
    let optimizer = total(&report, "optimizer_step")
        - total(&report, "training_step")
        - total(&report, "[Strategy]Own.backward");
    same(sum(|entry| entry.optimizer_seconds), optimizer);
    assert_eq!(row(profile(&report, "training_step"), "embedding.forward").calls.total_calls, 4);
    let validated: f64 = all[1].entries.iter().map(|entry| entry.forward_seconds).sum();
    same(validated, total(&report, "[Strategy]Own.validation_step"));
}

#[test]
fn an_action_at_several_places_tells_all_its_time() {
    let profiler = AdvancedProfiler::new();
    for outer in ["warm", "cold", "warm"] {
        let outer = profiler.profile(outer);
        spend(&profiler, Action::new("training_step"), 2);
        drop(outer);
        profiler.step();
    }
    let report = profiler.snapshot();
    let forward = report.step_series[0].entries.iter().map(|entry| entry.forward_seconds);
    assert_eq!(report.step_series[0].steps, 3);
    same(forward.sum(), total(&report, "training_step"));
}

#[test]
fn a_loop_that_tells_of_no_steps_has_none() {
    let profiler = AdvancedProfiler::new();
    spend(&profiler, Action::new("training_step"), 1);
    assert!(profiler.snapshot().step_series.is_empty());
}
