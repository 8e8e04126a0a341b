//! Tests of the Advanced profiler's public interface: call trees, recursion, threads, limits.

mod large;
mod steps;

use std::time::Duration;

use super::*;
use crate::ProfilerExt;
use crate::report::advanced::{ActionProfile, FunctionStatistics};
use mlprof_events::{ActionKind, SourceLocation};

fn function(name: &str, line: u32) -> Action {
    Action::with_location(ActionKind::Function, name, SourceLocation { file: "model.rs", line })
}

fn spin(duration: Duration) {
    let started = std::time::Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn profile<'report>(report: &'report AdvancedReport, action: &str) -> &'report ActionProfile {
    report.actions.iter().find(|profile| profile.action == action).expect("a profile")
}

fn row<'profile>(profile: &'profile ActionProfile, name: &str) -> &'profile FunctionStatistics {
    profile.functions.iter().find(|row| row.function.name == name).expect("a row")
}

#[test]
fn an_outer_action_loses_nothing_when_an_inner_one_starts() {
    let profiler = AdvancedProfiler::new();
    let (forward, linear) = (function("forward", 10), function("linear", 20));
    for _ in 0..2 {
        let _batch = profiler.profile("run_training_batch");
        {
            let _step = profiler.profile("training_step");
            let _forward = profiler.profile(forward);
            drop(profiler.profile(linear));
            spin(Duration::from_millis(1));
        }
        drop(profiler.profile(linear));
    }
    let report = profiler.snapshot();
    let batch = profile(&report, "run_training_batch");
    assert_eq!(row(batch, "linear").calls.total_calls, 4);
    let callers: Vec<_> = row(batch, "linear")
        .callers
        .iter()
        .map(|caller| (caller.caller.name.as_str(), caller.calls.total_calls))
        .collect();
    assert_eq!(callers, [("forward", 2), ("run_training_batch", 2)]);
    let own: f64 = batch.functions.iter().map(|row| row.calls.self_seconds).sum();
    assert!((own / batch.total_seconds - 1.0).abs() < 1e-6, "self times add up");
    let step = profile(&report, "training_step");
    assert_eq!(row(step, "linear").calls.total_calls, 2);
    assert_eq!(step.calls, 2);
    assert!(row(step, "forward").calls.self_seconds >= 0.002);
}

#[test]
fn recursion_splits_total_from_primitive_calls() {
    fn fibonacci(profiler: &AdvancedProfiler, action: Action, n: u32) -> u32 {
        let _scope = profiler.profile(action);
        if n < 2 {
            n
        } else {
            fibonacci(profiler, action, n - 1) + fibonacci(profiler, action, n - 2)
        }
    }
    let profiler = AdvancedProfiler::new();
    {
        let _action = profiler.profile("compute");
        assert_eq!(fibonacci(&profiler, function("fibonacci", 1), 15), 610);
        fibonacci(&profiler, function("fibonacci", 1), 15);
    }
    let report = profiler.snapshot();
    let compute = profile(&report, "compute");
    let calls = row(compute, "fibonacci").calls;
    assert_eq!((calls.total_calls, calls.primitive_calls), (2 * 1973, 2));
    assert!(calls.cumulative_seconds <= compute.total_seconds);
    assert!((calls.self_seconds / calls.cumulative_seconds - 1.0).abs() < 1e-6);
    let root = &report.threads[0].roots[0];
    assert_eq!(root.children.len(), 1);
    assert_eq!(root.children[0].calls.total_calls, 2 * 1973);
    assert!(root.children[0].children.is_empty(), "recursion does not deepen the tree");
}

#[test]
fn mutual_recursion_stays_small_and_exact() {
    fn ping(profiler: &AdvancedProfiler, depth: u32) {
        let _scope = profiler.profile(function("ping", 1));
        if depth > 0 {
            pong(profiler, depth - 1);
        }
    }
    fn pong(profiler: &AdvancedProfiler, depth: u32) {
        let _scope = profiler.profile(function("pong", 2));
        if depth > 0 {
            ping(profiler, depth - 1);
        }
    }
    let profiler = AdvancedProfiler::new();
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    std::thread::scope(|scope| {
        let run = || {
            let _action = profiler.profile("play");
            ping(&profiler, 9_999);
        };
        worker.spawn_scoped(scope, run).expect("a thread").join().expect("no panic");
    });
    let report = profiler.snapshot();
    let play = profile(&report, "play");
    for name in ["ping", "pong"] {
        let calls = row(play, name).calls;
        assert_eq!((calls.total_calls, calls.primitive_calls), (5_000, 1), "{name}");
    }
    let own: f64 = play.functions.iter().map(|row| row.calls.self_seconds).sum();
    assert!((own / play.total_seconds - 1.0).abs() < 1e-6);
}

#[test]
fn a_function_is_primitive_once_per_action_even_if_the_action_is_inside_it() {
    let profiler = AdvancedProfiler::new();
    let train = function("train", 1);
    {
        let _outer = profiler.profile(train);
        let _step = profiler.profile("step");
        let _inner = profiler.profile(train);
        spin(Duration::from_millis(1));
    }
    let report = profiler.snapshot();
    let calls = row(profile(&report, "step"), "train").calls;
    assert_eq!((calls.total_calls, calls.primitive_calls), (1, 1));
    assert!(calls.cumulative_seconds >= 0.001);
    assert!(report.actions.iter().any(|profile| profile.action == "(outside of any action)"));
}

#[test]
fn functions_on_threads_of_their_own_are_seen() {
    let profiler = AdvancedProfiler::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(profiler.profile(function("decode", 5))));
        }
    });
    let report = profiler.snapshot();
    let outside = profile(&report, "(outside of any action)");
    assert_eq!(row(outside, "decode").calls.total_calls, 4);
    assert!(profiler.summary().contains("(decode)"));
}

#[test]
fn a_leaked_guard_does_not_become_a_caller() {
    let profiler = AdvancedProfiler::new();
    {
        let _outer = profiler.profile("outer");
        std::mem::forget(profiler.profile(function("leaked", 1)));
    }
    {
        let _after = profiler.profile("after");
        drop(profiler.profile(function("leaked", 1)));
    }
    let report = profiler.snapshot();
    assert_eq!(report.open.len(), 1);
    assert_eq!(report.threads[0].roots.len(), 2, "after stands beside outer, not below the leak");
    let calls = row(profile(&report, "after"), "leaked").calls;
    assert_eq!((calls.total_calls, calls.primitive_calls), (1, 1));
}

#[test]
fn a_tree_without_end_is_cut_and_told_of() {
    let profiler = AdvancedProfiler::new();
    let actions: Vec<Action> = (0..400).map(|n| function(&format!("f{n}"), n)).collect();
    for first in &actions {
        let _first = profiler.profile(*first);
        for second in &actions {
            drop(profiler.profile(*second));
        }
    }
    let report = profiler.snapshot();
    assert!(report.header.notes.iter().any(|note| note.contains("limit")), "{:?}", report.header);
    let outside = profile(&report, "(outside of any action)");
    let calls: u64 = outside.functions.iter().map(|row| row.calls.total_calls).sum();
    assert_eq!(calls, 400 + 400 * 400, "every call is counted somewhere");
    assert!(report.open.is_empty());
}

#[test]
fn stage_reports_and_prof_files_are_delivered() {
    let directory = tempfile::tempdir().expect("a directory");
    let profiler =
        AdvancedProfiler::new().dirpath(directory.path()).filename("run").dump_stats(true);
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("training_step"));
    profiler.describe();
    let text = std::fs::read_to_string(directory.path().join("fit-run.txt")).expect("a report");
    assert!(text.starts_with("FIT Profiler Report"), "{text}");
    assert!(directory.path().join("fit-run-training_step.prof").exists());
}
