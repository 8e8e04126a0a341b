//! Tests of step durations, as reported by the loop.

use std::time::Duration;

use crate::report::SimpleReport;
use crate::report::steps::{StepEntry, StepSeries};
use crate::{Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage};

fn sleep(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

fn spend(profiler: &SimpleProfiler, action: &'static str, milliseconds: u64) {
    let _scope = profiler.profile(action);
    sleep(milliseconds);
}

/// Trains one step like a trainer: the optimizer's step encloses the forward and backward passes.
fn train(profiler: &SimpleProfiler, forward: u64) {
    spend(profiler, "[_TrainingEpochLoop].train_dataloader_next", 4);
    let batch = profiler.profile("run_training_batch");
    let step = profiler.profile("optimizer_step");
    {
        let _forward = profiler.profile("training_step");
        spend(profiler, "embedding.forward", forward);
    }
    spend(profiler, "[Strategy]Own.backward", 6);
    spend(profiler, "all_reduce_gradients", 3);
    spend(profiler, "configure_gradient_clipping", 2);
    drop(step);
    drop(batch);
    profiler.step();
}

fn parts(entry: &StepEntry) -> f64 {
    entry.data_seconds
        + entry.forward_seconds
        + entry.backward_seconds
        + entry.collective_seconds
        + entry.optimizer_seconds
        + entry.other_seconds
}

/// Checks that each part takes at least the slept time and that the parts add up to the step.
fn check(entry: &StepEntry, [data, forward, backward, optimizer]: [f64; 4]) {
    assert!((parts(entry) / entry.seconds - 1.0).abs() < 1e-9, "{entry:?}");
    assert!(entry.data_seconds >= data && entry.forward_seconds >= forward, "{entry:?}");
    assert!(
        entry.backward_seconds >= backward && entry.optimizer_seconds >= optimizer,
        "{entry:?}"
    );
}

fn total(report: &SimpleReport, action: &str) -> f64 {
    report.actions.iter().find(|row| row.action == action).expect("the row").total_seconds
}

fn sum(series: &StepSeries, part: fn(&StepEntry) -> f64) -> f64 {
    series.entries.iter().map(part).sum()
}

fn same(one: f64, other: f64) {
    assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
}

fn series(profiler: &SimpleProfiler) -> Vec<StepSeries> {
    profiler.snapshot().step_series
}

#[test]
fn each_step_has_its_time_and_its_parts() {
    let profiler = SimpleProfiler::new();
    profiler.setup(Stage::Fit, &RunContext::default());
    profiler.setup(Stage::SanityCheck, &RunContext::default());
    spend(&profiler, "validation_step", 1);
    profiler.step();
    profiler.teardown(Some(Stage::SanityCheck));
    let before = profiler.profile("run_training_epoch");
    for step in 0..4 {
        train(&profiler, if step == 2 { 40 } else { 5 });
    }
    drop(before);
    let report = profiler.snapshot();
    let all = &report.step_series;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((all[0].stage, all[0].steps, all[0].entries.len()), (Some(Stage::Fit), 4, 4));
    for (number, entry) in all[0].entries.iter().enumerate() {
        assert_eq!((entry.number, entry.count), (number as u64, 1));
        check(entry, [0.004, if number == 2 { 0.04 } else { 0.005 }, 0.006, 0.002]);
    }
    for pair in all[0].entries.windows(2) {
        let end = pair[0].start_seconds + pair[0].seconds;
        assert!((pair[1].start_seconds - end).abs() < 1e-6, "one after the other: {pair:?}");
    }
    let of = |action: &str| total(&report, action);
    same(sum(&all[0], |entry| entry.forward_seconds), of("training_step"));
    same(sum(&all[0], |entry| entry.backward_seconds), of("[Strategy]Own.backward"));
    // Forward and backward are inside the optimizer's step and must not count there again.
    let inside = ["training_step", "[Strategy]Own.backward", "all_reduce_gradients"];
    let optimizer = of("optimizer_step") - inside.map(of).iter().sum::<f64>();
    same(sum(&all[0], |entry| entry.collective_seconds), of("all_reduce_gradients"));
    same(sum(&all[0], |entry| entry.optimizer_seconds), optimizer);
    let waiting = of("[_TrainingEpochLoop].train_dataloader_next");
    same(sum(&all[0], |entry| entry.data_seconds), waiting);
}

/// Checks a hand-written loop that opens `optimizer_step` around a measured optimizer.
#[test]
fn an_update_inside_of_an_optimizers_step_is_the_optimizers() {
    let profiler = SimpleProfiler::new();
    for _ in 0..3 {
        spend(&profiler, "forward", 2);
        spend(&profiler, "backward", 1);
        {
            let _step = profiler.profile("optimizer_step");
            spend(&profiler, "Optimizer.step", 8);
        }
        profiler.step();
    }
    let report = profiler.snapshot();
    let all = &report.step_series[0];
    same(sum(all, |entry| entry.optimizer_seconds), total(&report, "optimizer_step"));
    same(sum(all, |entry| entry.forward_seconds), total(&report, "forward"));
}

#[test]
fn a_validation_is_no_part_of_a_step() {
    let profiler = SimpleProfiler::new();
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..2 {
        train(&profiler, 1);
        profiler.pause();
        for _ in 0..3 {
            spend(&profiler, "[_EvaluationLoop].val_next", 2);
            spend(&profiler, "[Strategy]Own.validation_step", 10);
            profiler.step();
        }
        profiler.resume();
    }
    let report = profiler.snapshot();
    let all = &report.step_series;
    let stages: Vec<_> = all.iter().map(|series| (series.stage, series.steps)).collect();
    assert_eq!(stages, [(Some(Stage::Fit), 2), (Some(Stage::Validate), 2)]);
    for validation in &all[1].entries {
        check(validation, [0.006, 0.03, 0.0, 0.0]);
        assert!(validation.seconds >= 0.036, "{validation:?}");
    }
    let (second, validation) = (&all[0].entries[1], &all[1].entries[0]);
    let end = validation.start_seconds + validation.seconds;
    assert!(second.start_seconds >= end - 1e-6, "{second:?} after {validation:?}");
    same(sum(&all[0], |entry| entry.forward_seconds), total(&report, "training_step"));
    let validated = total(&report, "[Strategy]Own.validation_step");
    same(sum(&all[1], |entry| entry.forward_seconds), validated);
}

#[test]
fn only_the_first_of_two_loops_at_once_tells_of_steps() {
    let profiler = SimpleProfiler::new();
    train(&profiler, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| train(&profiler, 1));
    });
    train(&profiler, 1);
    assert_eq!(series(&profiler)[0].steps, 2);
}

#[test]
fn a_loop_that_tells_of_no_steps_has_none() {
    let profiler = SimpleProfiler::new();
    spend(&profiler, "training_step", 1);
    assert_eq!(series(&profiler), []);
    let json = crate::Report::Simple(profiler.snapshot()).to_json().expect("JSON");
    assert!(!json.contains("step_series"));
}

/// Checks that memory does not grow with the number of steps. Scopes cost the same, because steps
/// are evaluated only at their ends.
#[test]
fn a_million_steps_are_some_thousand_entries() {
    let steps = if cfg!(miri) { 9_000 } else { 1_000_000 };
    let profiler = SimpleProfiler::new();
    for _ in 0..steps {
        drop(profiler.profile("training_step"));
        profiler.step();
    }
    let all = series(&profiler);
    assert_eq!(all[0].steps, steps);
    assert!(all[0].entries.len() <= crate::report::steps::MOST_ENTRIES);
}
