//! Tests of runs that are shorter than their schedule. The report must have numbers, and its
//! heading and notes must name their source.

use std::sync::{Arc, Mutex};

use mlprof_core::hook::OpStart;
use mlprof_core::report::TensorReport;
use mlprof_core::tensor::{GroupBy, Schedule};
use mlprof_core::{
    Action, Interest, Profiler, ProfilerExt, Report, RunContext, Stage, TensorProfiler, activate,
};

fn op(profiler: &TensorProfiler, name: &str) {
    let op = Action::op(name);
    profiler.start_op(&OpStart::new(op));
    profiler.stop(op).expect("was started");
}

/// Runs a fit with this many steps of two ops each, and the work at a trainer's end.
fn fit(profiler: &TensorProfiler, steps: usize) {
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..steps {
        let _scope = profiler.profile("training_step");
        op(profiler, "aten::mm");
        op(profiler, "aten::mm");
        drop(_scope);
        profiler.step();
    }
    drop(profiler.profile("on_fit_end"));
    profiler.teardown(Some(Stage::Fit));
}

fn report(profiler: &TensorProfiler) -> TensorReport {
    match profiler.report() {
        Some(Report::Tensor(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn calls(profiler: &TensorProfiler, name: &str) -> u64 {
    let averages = profiler.key_averages(&GroupBy::name());
    averages.rows.iter().filter(|row| row.name == name).map(|row| row.calls).sum()
}

/// Returns the heading of the report, up to the number of events.
fn heading(text: &str) -> &str {
    let line = text.lines().nth(2).unwrap_or_default();
    line.split(" events in ").next().unwrap_or_default()
}

#[test]
fn every_length_of_a_run_gives_numbers_and_says_of_what() {
    // In the default schedule, steps 2 to 4 are active, and steps 0 and 1 are not.
    let cut_short = |recorded: u64, had: u64| {
        format!(
            "cycle 0 is incomplete: the schedule needs 5 steps until its end, fit had {had} \
             steps, and {recorded} of the cycle's 3 steps were recorded"
        )
    };
    let too_short = |had: &str, shown: &str| {
        format!(
            "the schedule needs 5 steps and fit had {had}: no active step (the first is 2, \
             counted from 0) was completed, so the report shows {shown}; use a smaller skip_first, \
             wait or warmup, or train longer"
        )
    };
    let counted = "(counted from 0)";
    let expected = [
        (1, format!("Step 0 {counted}: 5"), 2, Some(too_short("1 step", "step 0"))),
        (
            2,
            format!("Steps 0 to 1 {counted} and events after the last one: 9"),
            4,
            Some(too_short("2 steps", "steps 0 to 1")),
        ),
        (3, format!("Step 2 {counted}: 5"), 2, Some(cut_short(1, 3))),
        (4, format!("Steps 2 to 3 {counted}: 9"), 4, Some(cut_short(2, 4))),
        (5, format!("Steps 2 to 4 {counted}: 12"), 6, None),
        (9, format!("Steps 2 to 4 {counted}: 12"), 6, None),
    ];
    for (steps, head, ops, note) in expected {
        let profiler = TensorProfiler::new().export_trace(false);
        fit(&profiler, steps);
        let text = profiler.summary();
        assert_eq!(heading(&text), head, "{text}");
        assert_eq!(calls(&profiler, "aten::mm"), ops, "{text}");
        let report = report(&profiler);
        assert_eq!(report.header.notes, note.clone().into_iter().collect::<Vec<_>>(), "{text}");
        let json = Report::Tensor(report).to_json().expect("JSON");
        if let Some(note) = note {
            assert!(text.contains(&format!("\nNote: {note}\n")), "{text}");
            assert!(json.contains(&note), "{json}");
        }
        let shown = if steps < 5 { 1 } else { 0 };
        assert_eq!(calls(&profiler, "on_fit_end"), shown, "{text}");
    }
}

#[test]
fn a_loop_that_never_calls_step_gives_numbers() {
    let profiler = TensorProfiler::new().export_trace(false);
    for _ in 0..3 {
        let _scope = profiler.profile("training_step");
        op(&profiler, "aten::mm");
    }
    profiler.describe();
    let text = profiler.summary();
    assert_eq!(heading(&text), "Step 0 (counted from 0): 6", "{text}");
    assert_eq!(calls(&profiler, "aten::mm"), 3);
    assert_eq!(calls(&profiler, "ProfilerStep*"), 0, "no step has ended");
    let [note] = &report(&profiler).header.notes[..] else { panic!("{text}") };
    assert!(note.starts_with("step() was never called, and the first active step is 2"), "{note}");
    assert!(note.contains("so the whole recording is one step: call step()"), "{note}");
}

#[test]
fn a_long_wait_is_not_recorded_whole() {
    let schedule = Schedule::new().wait(10).warmup(2).active(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let profiler = TensorProfiler::new().schedule(schedule);
    let profiler = profiler.on_trace_ready(move |cycle| {
        sink.lock().expect("no panic").push(cycle.steps.clone());
    });
    // While the schedule waits, hooks are active only for the first five steps.
    profiler.setup(Stage::Fit, &RunContext::default());
    let mut recorded = Vec::new();
    for _ in 0..14 {
        recorded.push(profiler.interest() != Interest::NONE);
        op(&profiler, "aten::mm");
        profiler.step();
    }
    profiler.teardown(Some(Stage::Fit));
    let expected = [[true; 5], [false; 5]].concat();
    assert_eq!(recorded[..10], expected);
    assert_eq!(recorded[10..], [true, true, true, false]);
    let shown = seen.lock().expect("no panic").clone();
    assert_eq!(shown.as_slice(), std::slice::from_ref(&(12..13)), "the active step alone is shown");
    assert_eq!(calls(&profiler, "aten::mm"), 1);
    // Shorter runs show the first steps, or those of the warm-up.
    for (steps, shown) in [(3, 0..3), (8, 0..5), (11, 10..11), (12, 10..12)] {
        seen.lock().expect("no panic").clear();
        fit(&profiler, steps);
        let first = seen.lock().expect("no panic").first().cloned();
        let text = profiler.summary();
        assert_eq!(first, Some(shown), "{steps} steps: {text}");
        let [note] = &report(&profiler).header.notes[..] else { panic!("{text}") };
        assert!(note.contains(&format!("needs 13 steps and fit had {steps} steps")), "{note}");
    }
}

#[test]
fn the_fallback_recording_leaves_no_trace() {
    let profiler = Arc::new(TensorProfiler::new().export_trace(false));
    // The profiler is activated long before its stage. Ops outside of the stage are not part of the
    // report.
    let activated = activate(profiler.clone());
    op(&profiler, "aten::outside");
    fit(&profiler, 6);
    drop(activated);
    let report = report(&profiler);
    assert_eq!((report.header.stage, report.cycle_count), (Some(Stage::Fit), 1));
    assert_eq!((calls(&profiler, "aten::mm"), calls(&profiler, "aten::outside")), (6, 0));
    assert_eq!(report.dropped.events, 0);
}

#[test]
fn an_endless_first_step_has_a_limit() {
    let profiler = TensorProfiler::new().export_trace(false);
    for _ in 0..(1 << 20) + 5000 {
        op(&profiler, "aten::mm");
    }
    profiler.describe();
    let report = report(&profiler);
    assert_eq!(calls(&profiler, "aten::mm"), 1 << 20);
    assert_eq!(report.dropped.events, 5000);
    assert!(report.header.notes.iter().any(|note| note.starts_with("5,000 ops")), "{report:?}");
}

#[test]
fn a_report_in_the_middle_says_when_numbers_come() {
    let profiler = TensorProfiler::new().export_trace(false);
    profiler.setup(Stage::Fit, &RunContext::default());
    op(&profiler, "aten::mm");
    profiler.step();
    let text = profiler.summary();
    assert!(
        text.contains(
            "Note: the first active step is 2 (counted from 0), and fit is at step 1: numbers \
             follow at the end of a cycle or of the stage\n"
        ),
        "{text}"
    );
}
