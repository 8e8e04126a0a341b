//! Tests of the memory profiler's counts for actions.

use std::sync::Arc;
use std::time::Instant;

use mlprof_core::allocation::AllocationProfiler;
use mlprof_core::prelude::profiled;
use mlprof_core::report::MemoryReport;
use mlprof_core::report::memory::ActionMemory;
use mlprof_core::{Action, ActionKind, Profiler, ProfilerExt, Report, RunContext, Stage, activate};

use crate::turn;

fn row<'report>(report: &'report MemoryReport, action: &str) -> &'report ActionMemory {
    let row = report.actions.iter().find(|row| row.action == action);
    row.unwrap_or_else(|| panic!("no {action} in {:#?}", report.actions))
}

#[test]
fn total_self_net_and_peak() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let mut kept = Vec::with_capacity(3); // 72 bytes, allocated before the actions
    for _ in 0..3 {
        let _outer = profiler.profile("outer");
        let passing = vec![0_u8; 10_000];
        drop(passing);
        {
            let _inner = profiler.profile("inner");
            kept.push(vec![0_u8; 700]);
            drop(vec![0_u8; 300]);
        }
        let _end = vec![0_u8; 5_000];
    }
    let report = profiler.snapshot();
    let outer = row(&report, "outer");
    assert_eq!(outer.calls, 3);
    assert_eq!((outer.total.allocated_bytes, outer.total.allocated_blocks), (48_000, 12));
    assert_eq!((outer.total.freed_bytes, outer.total.freed_blocks), (45_900, 9));
    assert_eq!((outer.total.net_bytes(), outer.total.net_blocks()), (2_100, 3));
    assert_eq!((outer.own.allocated_bytes, outer.own.allocated_blocks), (45_000, 6));
    assert_eq!(outer.own.net_bytes(), 0);
    assert_eq!(outer.peak_bytes, 10_000, "not the two large ones, which were one after the other");
    let inner = row(&report, "inner");
    assert_eq!((inner.total.allocated_bytes, inner.peak_bytes), (3_000, 1_000));
    assert_eq!(inner.own, inner.total);
    assert_eq!(report.process.total.net_bytes(), 2_100 + 72);

    let json = Report::Memory(report.clone()).to_json().expect("JSON");
    assert_eq!(Report::from_json(&json).expect("ours"), Report::Memory(report));
    drop(kept);
}

#[test]
fn running_actions_count_from_their_start() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let began = Instant::now();
    let _outer = profiler.profile("outer");
    let _inner = profiler.profile("inner");
    let report = profiler.snapshot();
    let most = began.elapsed().as_secs_f64() * 1.01 + 1e-3;
    assert_eq!(report.open.len(), 2);
    for open in &report.open {
        let elapsed = open.elapsed_seconds;
        assert!((0.0..=most).contains(&elapsed), "{open:?}: at most {most} s");
    }
    assert_eq!(report.open[0].action, "outer", "the longest first");
}

/// Checks that the peak of an action is relative to its start, and that the net is negative if it
/// frees more than it allocates.
#[test]
fn an_action_may_free_what_came_before() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let before = vec![0_u8; 50_000];
    {
        let _scope = profiler.profile("replace");
        drop(before);
        drop(vec![0_u8; 20_000]);
    }
    {
        let _scope = profiler.profile("nothing");
    }
    let report = profiler.snapshot();
    let row = |name| row(&report, name);
    assert_eq!(row("replace").total.net_bytes(), -50_000);
    assert_eq!(row("replace").peak_bytes, 0, "it never had more than at its start");
    assert_eq!((row("nothing").total, row("nothing").peak_bytes), Default::default());
    assert!(profiler.summary().contains("-48.83 KiB"), "{}", profiler.summary());
}

#[profiled]
fn recursive(depth: u32) {
    let _block = vec![0_u8; 1_000];
    if depth > 1 {
        recursive(depth - 1);
    }
}

#[test]
fn functions_and_recursion() {
    let _turn = turn();
    let profiler = Arc::new(AllocationProfiler::new());
    let active = activate(profiler.clone());
    recursive(5);
    drop(active);
    recursive(5);
    let report = profiler.snapshot();
    let [row] = &report.actions[..] else { panic!("{:#?}", report.actions) };
    assert!(row.action.ends_with("recursive"), "{}", row.action);
    assert_eq!((row.kind, row.calls), (ActionKind::Function, 5));
    assert_eq!((row.total.allocated_bytes, row.own.allocated_bytes), (5_000, 5_000));
    assert_eq!(row.peak_bytes, 5_000);
}

#[test]
fn threads_have_rows_of_their_own() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    std::thread::scope(|scope| {
        for number in 1..=64_usize {
            let profiler = &profiler;
            let thread = std::thread::Builder::new().name(format!("worker-{}", number % 2));
            let work = move || {
                for _ in 0..100 {
                    let _scope = profiler.profile("work");
                    drop(vec![0_u8; number]);
                }
            };
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let report = profiler.snapshot();
    let work = row(&report, "work");
    let sum: u64 = (1..=64).sum();
    assert_eq!(work.calls, 6_400);
    assert_eq!((work.total.allocated_bytes, work.total.allocated_blocks), (100 * sum, 6_400));
    assert_eq!((work.total.net_bytes(), work.peak_bytes), (0, 64));
    let odd = report.threads.iter().find(|thread| thread.thread == "worker-1").expect("it");
    assert_eq!(odd.threads, 32);
    assert_eq!(odd.actions[0].total.allocated_bytes, 100 * (1..=64).step_by(2).sum::<u64>());
}

#[test]
fn a_panic_ends_actions() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _scope = profiler.profile("fails");
        let _block = vec![0_u8; 400];
        let _inner = profiler.profile("fails inside");
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(caught.is_err());
    let report = profiler.snapshot();
    assert_eq!(row(&report, "fails").calls, 1);
    assert_eq!(row(&report, "fails").peak_bytes.max(400), row(&report, "fails").peak_bytes);
    assert!(report.open.is_empty());
}

/// Uses scopes that end out of order: the inner one is detached and continues.
#[test]
fn an_overtaken_action_is_counted() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let [first, second] = ["overtaking", "overtaken"].map(Action::new);
    profiler.start(first);
    profiler.start(second);
    drop(vec![0_u8; 100]);
    profiler.stop(first).expect("open");
    drop(vec![0_u8; 20]);
    profiler.stop(second).expect("open");
    profiler.stop(second).expect_err("stopped");
    let report = profiler.snapshot();
    assert_eq!(row(&report, "overtaking").own.allocated_bytes, 100);
    assert_eq!(row(&report, "overtaken").own.allocated_bytes, 120);
}

/// Checks that work in a nested stage is not part of the self counts of an enclosing action.
#[test]
fn a_stage_inside_an_action() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    {
        let _epoch = profiler.profile("epoch");
        {
            let _step = profiler.profile("step");
            drop(vec![0_u8; 10]);
            profiler.setup(Stage::Validate, &run);
            {
                let _validation = profiler.profile("validation");
                drop(vec![0_u8; 200]);
            }
            let inner = profiler.snapshot();
            assert_eq!(row(&inner, "validation").own.allocated_bytes, 200);
            profiler.teardown(Some(Stage::Validate));
        }
        drop(vec![0_u8; 3_000]);
    }
    let report = profiler.snapshot();
    assert_eq!(row(&report, "step").total.allocated_bytes, 210);
    assert_eq!(row(&report, "step").own.allocated_bytes, 10);
    assert_eq!(row(&report, "epoch").own.allocated_bytes, 3_000);
    profiler.teardown(Some(Stage::Fit));
}

/// Checks that the profiler's own memory does not count as the program's.
#[test]
fn allocations_of_the_profiler_are_not_counted() {
    let _turn = turn();
    let profiler = Arc::new(AllocationProfiler::new());
    let active = activate(profiler.clone());
    {
        let _outer = profiler.profile("outer");
        for number in 0..1_000 {
            let action = Action::new(&format!("{number}")); // the program allocates the names
            profiler.start(action);
            profiler.stop(action).expect("open");
        }
        let before = mlprof_core::allocation::thread_tallies();
        for index in 0..1_000 {
            let action = Action::new("one of many");
            profiler.start(action);
            for _ in 0..index % 200 {
                profiler.start(action);
            }
            for _ in 0..index % 200 {
                profiler.stop(action).expect("open");
            }
            profiler.stop(action).expect("open");
        }
        drop(profiler.snapshot().header);
        let counted = mlprof_core::allocation::thread_tallies().since(&before);
        // The caller owns the report and frees it.
        assert_eq!((counted.allocated_bytes, counted.allocated_blocks), (0, 0));
    }
    drop(active);
}
