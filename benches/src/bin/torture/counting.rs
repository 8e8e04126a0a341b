//! Scenes in one process with known counts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mlprof_core::{Action, AdvancedProfiler, Profiler, ProfilerExt, Report, SimpleProfiler};

use crate::{Outcome, Scale};

/// Returns the profilers under test: both profilers that accumulate data for the whole run.
fn profilers() -> [(&'static str, Arc<dyn Profiler>); 2] {
    [("simple", Arc::new(SimpleProfiler::new())), ("advanced", Arc::new(AdvancedProfiler::new()))]
}

/// Returns the number of calls of an action in the report, summed over all stages and rows.
fn calls_of(profiler: &dyn Profiler, action: &str) -> u64 {
    match profiler.report() {
        Some(Report::Simple(report)) => {
            let rows = report.actions.iter().filter(|row| row.action == action);
            rows.map(|row| row.calls).sum()
        }
        Some(Report::Advanced(report)) => {
            let rows = report.actions.iter().filter(|row| row.action == action);
            rows.map(|row| row.calls).sum()
        }
        _ => 0,
    }
}

/// Returns an error if a count is not as expected.
fn expect(what: &str, counted: u64, right: u64) -> Result<(), String> {
    if counted == right { Ok(()) } else { Err(format!("{what}: {counted} counted, {right} right")) }
}

/// Runs a scene for each profiler, and reports the time per piece of work.
fn for_each(pieces: u32, play: impl Fn(&str, &Arc<dyn Profiler>) -> Result<(), String>) -> Outcome {
    let mut said = Vec::new();
    for (name, profiler) in profilers() {
        let start = Instant::now();
        play(name, &profiler)?;
        let nanoseconds = start.elapsed().as_nanos() as f64 / f64::from(pieces);
        said.push(format!("{name} {nanoseconds:.0} ns each"));
    }
    Ok(said.join(", "))
}

pub fn scopes(scale: Scale) -> Outcome {
    let calls = scale.of(100_000_000);
    for_each(calls, |name, profiler| {
        let action = Action::new("scope");
        (0..calls).for_each(|_| drop(profiler.profile(action)));
        expect(name, calls_of(&**profiler, "scope"), calls.into())
    })
}

pub fn threads(scale: Scale) -> Outcome {
    let (threads, calls) = (scale.of(5_000), 200);
    for_each(threads, |name, profiler| {
        let is_over = AtomicBool::new(false);
        let reports = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut reports = 0_u64;
                while !is_over.load(Ordering::Acquire) {
                    let text = profiler.summary();
                    let read = profiler.report().map(|report| report.to_json());
                    assert!(!text.is_empty() && read.is_some_and(|json| json.is_ok()));
                    reports += 1;
                }
                reports
            });
            let makers: Vec<_> = (0..4)
                .map(|maker| {
                    scope.spawn(move || {
                        (maker..threads).step_by(4).try_for_each(|_| {
                            let profiler = profiler.clone();
                            let work =
                                move || (0..calls).for_each(|_| drop(profiler.profile("work")));
                            std::thread::spawn(work).join()
                        })
                    })
                })
                .collect();
            let ended = makers.into_iter().all(|maker| matches!(maker.join(), Ok(Ok(()))));
            is_over.store(true, Ordering::Release);
            match reader.join() {
                Ok(reports) if ended => Ok(reports),
                _ => Err(format!("{name}: a thread panicked")),
            }
        })?;
        println!("  {name}: {reports} reports meanwhile");
        expect(name, calls_of(&**profiler, "work"), u64::from(threads) * calls)
    })
}

pub fn panics(scale: Scale) -> Outcome {
    std::panic::set_hook(Box::new(|_| ()));
    let panics = scale.of(1_000_000);
    for_each(panics, |name, profiler| {
        for _ in 0..panics {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _outer = profiler.profile("outer");
                let _inner = profiler.profile("inner");
                std::panic::panic_any(());
            }));
            debug_assert!(caught.is_err());
        }
        expect(name, calls_of(&**profiler, "outer"), panics.into())
    })
}

pub fn recursion(scale: Scale) -> Outcome {
    fn down(profiler: &dyn Profiler, action: Action, depth: u32) {
        let _scope = profiler.profile(action);
        if depth > 1 {
            down(profiler, action, depth - 1);
        }
    }
    let depth = scale.of(1_000_000);
    for_each(depth, |name, profiler| {
        let deep = profiler.clone();
        let run = move || down(&*deep, Action::new("recursive"), depth);
        let thread = std::thread::Builder::new().stack_size(1 << 30).spawn(run);
        let ended = thread.map(std::thread::JoinHandle::join);
        if !matches!(ended, Ok(Ok(()))) {
            return Err(format!("{name}: the thread did not end well"));
        }
        expect(name, calls_of(&**profiler, "recursive"), depth.into())
    })
}

/// Returns actions with names that are unique in the process.
fn many_actions(prefix: &str, count: u32) -> Vec<Action> {
    (0..count).map(|number| Action::from(format!("{prefix} {number}"))).collect()
}

/// Returns an error unless each action was counted `calls` times.
fn expect_all(
    name: &str,
    profiler: &dyn Profiler,
    actions: &[Action],
    calls: u64,
) -> Result<(), String> {
    for action in [actions.first(), actions.last()].into_iter().flatten() {
        expect(&format!("{name}, {}", action.name()), calls_of(profiler, action.name()), calls)?;
    }
    Ok(())
}

pub fn names(scale: Scale) -> Outcome {
    let names = scale.of(10_000);
    let actions = many_actions("name", names);
    for_each(names * 100, |name, profiler| {
        for _ in 0..100 {
            actions.iter().for_each(|action| drop(profiler.profile(*action)));
        }
        expect_all(name, &**profiler, &actions, 100)
    })
}

pub fn callees(scale: Scale) -> Outcome {
    let callees = scale.of(10_000);
    let actions = many_actions("callee", callees);
    for_each(callees * 100, |_, profiler| {
        let _parent = profiler.profile("parent");
        for _ in 0..100 {
            actions.iter().for_each(|action| drop(profiler.profile(*action)));
        }
        Ok(())
    })
}

pub fn depth(scale: Scale) -> Outcome {
    let actions = many_actions("depth", scale.of(3_000));
    for_each(scale.of(3_000), |name, profiler| {
        let open: Vec<_> = actions.iter().map(|action| profiler.profile(*action)).collect();
        open.into_iter().rev().for_each(drop);
        expect_all(name, &**profiler, &actions, 1)
    })
}

pub fn forgotten(scale: Scale) -> Outcome {
    let (guards, calls) = (scale.of(20_000), scale.of(1_000_000));
    for_each(calls, |name, profiler| {
        let action = Action::new("forgotten");
        (0..guards).for_each(|_| std::mem::forget(profiler.profile(action)));
        let never = Action::new("never started");
        for _ in 0..calls {
            drop(profiler.profile("leaf"));
            let _ = profiler.stop(never);
        }
        let report = profiler.summary();
        if report.len() > 200_000 {
            return Err(format!("{name}: a report of {} bytes", report.len()));
        }
        expect(name, calls_of(&**profiler, "leaf"), calls.into())
    })
}
