//! Tests of the Simple profiler's public interface and of its numbers.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::ProfilerExt;
use crate::report::simple::ActionStatistics;

fn spin(duration: Duration) {
    let started = std::time::Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn row<'report>(report: &'report SimpleReport, action: &str) -> &'report ActionStatistics {
    let found = report.actions.iter().find(|row| row.action == action);
    found.unwrap_or_else(|| panic!("no row {action} in {:?}", report.actions))
}

#[test]
fn self_times_add_up_to_the_outermost_total() {
    let profiler = SimpleProfiler::new();
    for _ in 0..3 {
        let _batch = profiler.profile("run_training_batch");
        spin(Duration::from_millis(1));
        let _step = profiler.profile("training_step");
        spin(Duration::from_millis(2));
    }
    let report = profiler.snapshot();
    let (batch, step) = (row(&report, "run_training_batch"), row(&report, "training_step"));
    assert_eq!((batch.calls, step.calls), (3, 3));
    let without_steps = batch.total_seconds - 0.006;
    assert!((0.003..=without_steps).contains(&batch.self_seconds), "{batch:?}");
    assert!(step.self_seconds >= 0.006, "{step:?}");
    let difference = batch.total_seconds - batch.self_seconds - step.self_seconds;
    assert!(difference.abs() < 1e-6, "{difference}");
    assert!(report.header.wall_seconds >= batch.total_seconds);
    assert_eq!(report.header.overhead.scopes, 6);
    assert!(report.header.overhead.seconds_per_scope > 0.0);
}

#[test]
fn recursion_counts_every_call_and_the_time_once() {
    fn recurse(profiler: &SimpleProfiler, depth: u32) {
        let _scope = profiler.profile("recursive");
        if depth > 1 {
            recurse(profiler, depth - 1);
        }
    }
    let profiler = SimpleProfiler::new();
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    std::thread::scope(|scope| {
        let deep = worker.spawn_scoped(scope, || recurse(&profiler, 10_000)).expect("a thread");
        deep.join().expect("no panic");
    });
    let report = profiler.snapshot();
    let recursive = row(&report, "recursive");
    assert_eq!(recursive.calls, 10_000);
    assert!(recursive.total_seconds <= report.header.wall_seconds);
    assert!((recursive.self_seconds / recursive.total_seconds - 1.0).abs() < 1e-6);
    assert!(report.open.is_empty());
}

#[test]
fn the_first_call_stands_apart() {
    let profiler = SimpleProfiler::new();
    for call in 0..5 {
        let _scope = profiler.profile("compiles_once");
        spin(Duration::from_millis(if call == 0 { 20 } else { 1 }));
    }
    let report = profiler.snapshot();
    let row = row(&report, "compiles_once");
    let rest = row.rest.expect("five calls");
    assert!(row.first_seconds >= 0.02);
    assert!(rest.min_seconds >= 0.001 && rest.min_seconds <= rest.p50_seconds);
    assert!(rest.p50_seconds <= rest.p95_seconds && rest.p95_seconds <= rest.max_seconds);
    let total = row.first_seconds + 4.0 * rest.mean_seconds;
    assert!((total / row.total_seconds - 1.0).abs() < 1e-6);
}

#[test]
fn stopping_what_was_not_started_is_an_error_and_loses_nothing() {
    let profiler = SimpleProfiler::new();
    profiler.start("real".into());
    let error = profiler.stop("unreal".into()).expect_err("never started");
    assert_eq!(
        error.to_string(),
        "Attempting to stop recording an action (unreal) which was never started."
    );
    profiler.stop("real".into()).expect("is open");
    assert!(profiler.stop("real".into()).is_err(), "stopped already");
    let report = profiler.snapshot();
    assert_eq!((report.actions.len(), row(&report, "real").calls), (1, 1));
}

#[test]
fn a_leaked_guard_is_shown_as_running_and_harms_nothing_else() {
    let profiler = SimpleProfiler::new();
    {
        let _outer = profiler.profile("outer");
        std::mem::forget(profiler.profile("leaked"));
    }
    for _ in 0..3 {
        let _after = profiler.profile("after");
        let _same = profiler.profile("leaked");
        spin(Duration::from_micros(100));
    }
    let report = profiler.snapshot();
    assert_eq!(row(&report, "outer").calls, 1);
    assert_eq!(row(&report, "after").calls, 3);
    assert_eq!(row(&report, "leaked").calls, 3);
    assert!(row(&report, "leaked").total_seconds >= 0.0003, "not taken for recursion");
    assert_eq!(report.open.len(), 1);
    assert_eq!(report.open[0].action, "leaked");
    assert!(profiler.summary().contains("leaked"));
    profiler.stop("leaked".into()).expect("can still be stopped");
    assert!(profiler.snapshot().open.is_empty());
}

#[test]
fn a_panic_stops_its_actions() {
    let profiler = SimpleProfiler::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _batch = profiler.profile("run_training_batch");
        let _step = profiler.profile("training_step");
        panic!("on purpose");
    }));
    assert!(result.is_err());
    let report = profiler.snapshot();
    assert_eq!(row(&report, "run_training_batch").calls, 1);
    assert_eq!(row(&report, "training_step").calls, 1);
    assert!(report.open.is_empty());
}

#[test]
fn a_thousand_threads_that_end_before_the_report_lose_nothing() {
    let profiler = Arc::new(SimpleProfiler::new());
    for _ in 0..10 {
        let workers: Vec<_> = (0..100)
            .map(|number| {
                let profiler = profiler.clone();
                let work = move || {
                    for _ in 0..10 {
                        let _scope = profiler.profile("work");
                    }
                };
                let named = std::thread::Builder::new().name(format!("worker-{}", number % 4));
                named.spawn(work).expect("a thread")
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    }
    let report = profiler.snapshot();
    assert_eq!(row(&report, "work").calls, 10_000);
    assert_eq!(report.threads.len(), 4, "ended threads are kept by name");
    assert!(report.threads.iter().all(|thread| thread.threads == 250));
    let per_thread: u64 = report.threads.iter().map(|thread| thread.actions[0].calls).sum();
    assert_eq!(per_thread, 10_000);
}

#[test]
fn living_threads_of_one_name_are_one_entry_that_counts_them() {
    let profiler = SimpleProfiler::new();
    let barrier = std::sync::Barrier::new(3);
    let report = std::thread::scope(|scope| {
        for _ in 0..2 {
            let work = || {
                drop(profiler.profile("work"));
                barrier.wait(); // recorded
                barrier.wait(); // reported
            };
            let named = std::thread::Builder::new().name("loader".to_owned());
            named.spawn_scoped(scope, work).expect("a thread");
        }
        barrier.wait();
        let report = profiler.snapshot();
        barrier.wait();
        report
    });
    assert_eq!(report.threads.len(), 1);
    assert_eq!((report.threads[0].thread.as_str(), report.threads[0].threads), ("loader", 2));
    assert_eq!(report.threads[0].actions[0].calls, 2);
}

#[test]
fn a_thread_that_dies_in_the_middle_is_told_of() {
    let profiler = Arc::new(SimpleProfiler::new());
    let worker = profiler.clone();
    let named = std::thread::Builder::new().name("dies".to_owned());
    let dies = named.spawn(move || std::mem::forget(worker.profile("unfinished")));
    dies.expect("a thread").join().expect("no panic");
    let report = profiler.snapshot();
    assert!(report.actions.is_empty() && report.open.is_empty());
    assert_eq!(report.header.notes.len(), 1, "{:?}", report.header.notes);
    assert!(report.header.notes[0].contains("1 call was still open"));
}

/// Reports on threads that have made one or two calls. Their shortest and longest calls are unknown
/// or are just being recorded.
#[test]
fn a_report_may_be_made_at_any_moment_of_a_threads_first_calls() {
    let profiler = SimpleProfiler::new();
    let rounds = if cfg!(miri) { 3 } else { 200 };
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                for row in profiler.snapshot().actions {
                    let Some(rest) = row.rest else { continue };
                    assert!(rest.min_seconds <= rest.max_seconds, "{rest:?}");
                }
            }
        });
        for _ in 0..rounds {
            let call = || (0..3).for_each(|_| drop(profiler.profile("short-lived")));
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(call)).collect();
            workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("no panic");
    });
    assert_eq!(row(&profiler.snapshot(), "short-lived").calls, rounds * 6);
}

#[test]
fn readers_may_look_while_writers_write() {
    let profiler = SimpleProfiler::new();
    let calls = if cfg!(miri) { 50 } else { 20_000 };
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..calls {
                        let _outer = profiler.profile("outer");
                        let _inner = profiler.profile("inner");
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let report = profiler.snapshot();
                let calls: u64 = report.actions.iter().map(|row| row.calls).sum();
                assert!(calls >= seen, "counts only grow");
                seen = calls;
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("no panic");
    });
    let report = profiler.snapshot();
    assert_eq!((row(&report, "outer").calls, row(&report, "inner").calls), (4 * calls, 4 * calls));
}

#[test]
fn every_stage_starts_from_zero() {
    let profiler = SimpleProfiler::new();
    let run = RunContext::default();
    drop(profiler.profile("before_fit"));
    profiler.setup(Stage::Fit, &run);
    drop(profiler.profile("training_step"));
    let fit = profiler.snapshot();
    assert_eq!(fit.header.stage, Some(Stage::Fit));
    assert_eq!(fit.actions.len(), 2, "what came before the first stage belongs to it");
    profiler.teardown(Some(Stage::Fit));
    assert_eq!(profiler.snapshot().actions.len(), 2, "can be read after its end");
    profiler.setup(Stage::Test, &run);
    drop(profiler.profile("test_step"));
    let test = profiler.snapshot();
    assert_eq!(test.header.stage, Some(Stage::Test));
    assert_eq!(test.actions.len(), 1);
    assert!(profiler.summary().starts_with("TEST Profiler Report\n\n"));
}

#[test]
fn a_stage_inside_another_has_its_own_rows_and_the_other_goes_on() {
    let profiler = SimpleProfiler::new();
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    let fit_scope = profiler.profile("run_training_epoch");
    profiler.setup(Stage::Test, &run);
    drop(profiler.profile("test_step"));
    assert_eq!(profiler.snapshot().actions.len(), 1);
    profiler.teardown(Some(Stage::Test));
    drop(fit_scope);
    let fit = profiler.snapshot();
    assert_eq!(fit.header.stage, Some(Stage::Fit));
    assert_eq!(fit.actions.len(), 1);
    assert_eq!(row(&fit, "run_training_epoch").calls, 1);
}

#[test]
fn sanity_check_rows_are_kept_apart_and_counted_inside_what_surrounds_them() {
    let profiler = SimpleProfiler::new();
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    {
        let _sanity = profiler.profile("run_sanity_check");
        profiler.setup(Stage::SanityCheck, &run);
        {
            let _step = profiler.profile("validation_step");
            spin(Duration::from_millis(5));
        }
        profiler.teardown(Some(Stage::SanityCheck));
    }
    drop(profiler.profile("validation_step"));
    let report = profiler.snapshot();
    let steps: Vec<_> =
        report.actions.iter().filter(|row| row.action == "validation_step").collect();
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].sub_stage, Some(Stage::SanityCheck), "the longer one comes first");
    assert_eq!((steps[0].calls, steps[1].calls), (1, 1));
    let around = row(&report, "run_sanity_check");
    let difference = around.total_seconds - around.self_seconds - steps[0].total_seconds;
    assert!(difference.abs() < 1e-6, "{report:?}");
    assert!(profiler.summary().contains("[SanityCheck]validation_step"));
}

#[test]
fn a_guard_from_before_the_stage_may_be_dropped_in_it_or_after_it() {
    let profiler = SimpleProfiler::new();
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    let across = profiler.profile("across_stages");
    profiler.teardown(Some(Stage::Fit));
    profiler.setup(Stage::Test, &run);
    drop(profiler.profile("test_step"));
    drop(across);
    assert_eq!(profiler.snapshot().actions.len(), 1);
}

#[test]
fn awkward_names_are_rows_like_any_other() {
    let profiler = SimpleProfiler::new();
    let long = "x".repeat(10_000);
    for name in ["", "new\nline", "tab\tbed", "🔥", long.as_str()] {
        drop(profiler.profile(Action::new(name)));
    }
    let report = profiler.snapshot();
    assert_eq!(report.actions.len(), 5);
    assert_eq!(row(&report, &long).calls, 1);
    for text in [profiler.summary(), SimpleProfiler::new().detailed().summary()] {
        assert!(text.lines().all(|line| line.chars().count() < 1000));
    }
}

#[test]
fn two_profilers_on_one_thread_do_not_mix() {
    let (one, other) = (SimpleProfiler::new(), SimpleProfiler::new());
    for _ in 0..10 {
        let _one = one.profile("one");
        let _other = other.profile("other");
    }
    assert_eq!(row(&one.snapshot(), "one").calls, 10);
    assert_eq!(row(&other.snapshot(), "other").calls, 10);
    assert_eq!((one.snapshot().actions.len(), other.snapshot().actions.len()), (1, 1));
}

#[test]
fn ten_thousand_names_are_found_again() {
    let profiler = SimpleProfiler::new();
    let actions: Vec<Action> =
        (0..10_000).map(|number| Action::new(&format!("many-{number}"))).collect();
    for action in actions.iter().chain(&actions) {
        drop(profiler.profile(*action));
    }
    let report = profiler.snapshot();
    assert_eq!(report.actions.len(), 10_000);
    assert!(report.actions.iter().all(|row| row.calls == 2));
}

#[test]
fn a_destructor_of_a_thread_may_still_profile() {
    struct Late(Arc<SimpleProfiler>);
    impl Drop for Late {
        fn drop(&mut self) {
            let _scope = self.0.profile("late");
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let profiler = Arc::new(SimpleProfiler::new());
    let inside = profiler.clone();
    let worker = std::thread::spawn(move || {
        LATE.with_borrow_mut(|late| *late = Some(Late(inside.clone())));
        drop(inside.profile("early"));
    });
    worker.join().expect("no panic");
    let report = profiler.snapshot();
    assert_eq!(row(&report, "early").calls, 1);
    let late = report.actions.iter().any(|row| row.action == "late");
    assert!(late || report.header.notes.iter().any(|note| note.contains("exiting")));
}
