//! Tests of line tallies with real calls on real threads.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::abi::{self, LineFrame, LineSite, frame_kind};
use super::*;
use crate::report::Report;
use crate::report::lines::FunctionLines;

/// Creates a test function with four lines, from line 10.
fn site(name: &str) -> &'static LineSite {
    LineSite::for_tests(name, "/nowhere/at/all.rs", &[10, 11, 12, 13])
}

/// Simulates a call from instrumented code.
struct Call(LineFrame);

impl Call {
    fn of(site: &'static LineSite, kind: u32) -> Self {
        let call = Self(LineFrame::for_tests());
        // SAFETY: `site` has static lifetime, and the frame is valid.
        unsafe { abi::enter(site, &raw const call.0, kind) };
        call
    }

    fn at(&self, point: u32) {
        // SAFETY: `of` has entered the frame.
        unsafe { abi::at(&raw const self.0, point) };
    }

    fn back(&self, point: u32) {
        // SAFETY: `of` has entered the frame.
        unsafe { abi::back(&raw const self.0, point) };
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: `of` has entered the frame.
        unsafe { abi::leave(&raw const self.0) };
    }
}

fn find(name: &str) -> FunctionLines {
    let report = LineProfiler::new().report();
    let found = report.functions.into_iter().find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

fn hits(name: &str) -> Vec<(u32, u64)> {
    find(name).lines.iter().map(|line| (line.line, line.hits)).collect()
}

#[test]
fn time_inside_of_a_call_of_itself_is_counted_once() {
    let site = site("recursive");
    let wait = || std::thread::sleep(Duration::from_millis(20));
    let started = Instant::now();
    let outer = Call::of(site, frame_kind::CALL);
    outer.at(0);
    {
        let inner = Call::of(site, frame_kind::CALL);
        inner.at(1);
        wait();
        inner.at(2);
        inner.back(1);
        wait();
    }
    outer.at(3);
    drop(outer);
    let wall = started.elapsed().as_secs_f64();
    let function = find("recursive");
    assert_eq!(function.calls, 2);
    assert_eq!(hits("recursive"), [(10, 1), (11, 1), (12, 1), (13, 1)]);
    let seconds: Vec<_> = function.lines.iter().map(|line| line.seconds).collect();
    assert!(seconds[1] >= 0.04, "{seconds:?}");
    // The inner 40 ms must not count twice: the outer line only has its own time.
    assert!(function.total_seconds < wall * 1.1, "{seconds:?} in {wall}");
    assert!((seconds.iter().sum::<f64>() - function.total_seconds).abs() < 1e-12);
}

#[test]
fn a_report_can_be_made_while_a_line_runs() {
    let site = site("running");
    let (begun, seen) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let thread = {
        let (begun, seen) = (begun.clone(), seen.clone());
        std::thread::spawn(move || {
            let call = Call::of(site, frame_kind::CALL);
            call.at(2);
            std::thread::sleep(Duration::from_millis(10));
            begun.wait();
            seen.wait();
        })
    };
    begun.wait();
    let first = find("running").lines[0];
    assert_eq!((first.line, first.hits), (12, 1));
    assert!(first.seconds >= 0.01, "{first:?}");
    std::thread::sleep(Duration::from_millis(1));
    assert!(find("running").lines[0].seconds > first.seconds);
    seen.wait();
    thread.join().expect("no panic");
    let ended = find("running").total_seconds;
    std::thread::sleep(Duration::from_millis(10));
    assert!(find("running").total_seconds - ended < 0.005, "it has ended");
}

/// Blocks are reused, so there are only as many as concurrent threads.
#[test]
fn threads_that_end_leave_their_numbers_and_no_more() {
    let site = site("short-lived");
    for _ in 0..100 {
        std::thread::spawn(move || Call::of(site, frame_kind::CALL).at(0)).join().expect("ended");
    }
    assert_eq!(hits("short-lived"), [(10, 100)]);
    assert_eq!(find("short-lived").calls, 100);
    let functions = registry::all();
    let function = functions.iter().find(|one| one.declared.name == "short-lived");
    assert_eq!(function.expect("registered").blocks().len(), 1);
}

/// Covers two threads that end inside a line: one by a panic, and one with a frame that is never
/// left.
#[test]
fn threads_that_die_in_a_line_do_not_run_on() {
    let site = site("dying");
    let panics = std::thread::spawn(move || {
        let call = Call::of(site, frame_kind::CALL);
        call.at(0);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panics.join().is_err());
    let forgets = std::thread::spawn(move || {
        let call = Call::of(site, frame_kind::CALL);
        call.at(1);
        std::mem::forget(call);
    });
    forgets.join().expect("no panic");
    let before = find("dying").total_seconds;
    std::thread::sleep(Duration::from_millis(10));
    assert!(find("dying").total_seconds - before < 0.005, "nothing runs");
    // The next thread reuses the block. The time since the first thread ended must not count.
    std::thread::spawn(move || Call::of(site, frame_kind::CALL).at(2)).join().expect("ended");
    assert_eq!(hits("dying"), [(10, 1), (11, 1), (12, 1)]);
    let of_the_dead: f64 = find("dying").lines[..2].iter().map(|line| line.seconds).sum();
    assert!(of_the_dead - before < 0.005, "the gap is nobody's");
}

/// Covers thread-local values whose destructors call profiled functions after mlprof's
/// thread-locals are destroyed.
#[test]
fn calls_while_a_thread_is_torn_down_are_counted_as_lost() {
    struct Late(&'static LineSite);
    impl Drop for Late {
        fn drop(&mut self) {
            Call::of(self.0, frame_kind::CALL).at(0);
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let site = site("late");
    let lost = registry::lost();
    std::thread::spawn(move || {
        LATE.with(|late| *late.borrow_mut() = Some(Late(site)));
        Call::of(site, frame_kind::CALL).at(1); // mlprof's thread-local is destroyed first
    })
    .join()
    .expect("no panic");
    let late: u64 = hits("late").iter().map(|(_, hits)| hits).sum();
    // The order in which the two thread-locals are destroyed depends on the system.
    assert_eq!(late - 1 + registry::lost() - lost, 1);
    if registry::lost() > lost {
        let notes = LineProfiler::new().report().header.notes;
        assert!(notes.iter().any(|note| note.contains("exiting")), "{notes:?}");
    }
}

#[test]
fn a_future_goes_from_thread_to_thread() {
    let site = site("moving");
    let call = Call::of(site, frame_kind::ASYNC_CALL);
    call.at(0);
    // SAFETY: the frame is async and was entered.
    unsafe { abi::suspend(&raw const call.0) };
    let before = find("moving").total_seconds;
    std::thread::sleep(Duration::from_millis(10));
    assert!(find("moving").total_seconds - before < 0.005, "suspended");
    let call = std::thread::spawn(move || {
        // SAFETY: the frame is async, and was entered and suspended.
        unsafe { abi::resume(&raw const call.0) };
        call.at(1);
        call // moved without a call of `suspend`
    })
    .join()
    .expect("no panic");
    call.at(2);
    call.back(1);
    drop(call);
    assert_eq!(hits("moving"), [(10, 1), (11, 1), (12, 1)]);
    assert_eq!(find("moving").calls, 1);
    let after = find("moving").total_seconds;
    std::thread::sleep(Duration::from_millis(10));
    assert!(find("moving").total_seconds - after < 0.005, "nothing runs");
}

#[test]
fn many_threads_count_exactly_while_somebody_reads() {
    let site = site("busy");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..5_000 {
                    let call = Call::of(site, frame_kind::CALL);
                    call.at(0);
                    call.at(1);
                }
            })
        })
        .collect();
    let mut last = 0;
    while !threads.iter().all(|thread| thread.is_finished()) {
        let report = LineProfiler::new().report();
        let function = report.functions.iter().find(|function| function.name == "busy");
        let calls = function.map_or(0, |function| function.calls);
        assert!(calls >= last, "{calls} after {last}");
        last = calls;
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(hits("busy"), [(10, 20_000), (11, 20_000)]);
}

fn declared(name: &str, file: &str, source_hash: u64) -> DeclaredFunction {
    let (name, file) = (name.to_owned(), file.to_owned());
    DeclaredFunction { name, file, first_line: 2, last_line: 3, source_hash, points: vec![3] }
}

#[test]
fn sources_are_read_and_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("net.rs");
    std::fs::write(&path, "// one\r\nfn two() {\r\n}\r\n").expect("written");
    let file = path.display().to_string();
    let profiler = LineProfiler::new();
    let hash = source_hash(["fn two() {", "}"]);
    let missing = declared("missing", "/nowhere/net.rs", hash);
    for function in [
        declared("two", &file, hash),
        declared("changed", &file, hash + 1),
        missing.clone(),
        DeclaredFunction { name: "as well".to_owned(), ..missing },
    ] {
        registry::declare(|| function);
    }
    let report = profiler.report();
    let source = |name: &str| {
        let found = report.functions.iter().find(|function| function.name == name);
        found.expect("declared").source.clone()
    };
    let text = Some(vec!["fn two() {".to_owned(), "}".to_owned()]);
    assert_eq!((source("two"), source("changed"), source("missing")), (text.clone(), text, None));
    let notes = report.header.notes.join("\n");
    assert!(notes.contains("has changed since changed was built"), "{notes}");
    assert!(!notes.contains("since two was"), "{notes}");
    assert_eq!(notes.matches("/nowhere/net.rs").count(), 1, "{notes}");
}

#[test]
fn the_report_is_written_while_the_program_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("made/lines.json");
    let site = site("written");
    let call = Call::of(site, frame_kind::CALL);
    call.at(0);
    let profiler = Arc::new(LineProfiler::new());
    let interval = Duration::from_millis(1);
    let writer = PeriodicWriter::start(profiler, &path, interval).expect("a thread");
    let read = || -> Option<u64> {
        let json = std::fs::read_to_string(&path).ok()?;
        // The file always contains a complete report.
        let Ok(Report::Lines(report)) = Report::from_json(&json) else { panic!("{json}") };
        let function = report.functions.iter().find(|function| function.name == "written")?;
        Some(function.lines.iter().map(|line| line.hits).sum())
    };
    let wait_for = |hits: u64| {
        while read() != Some(hits) {
            std::thread::yield_now();
        }
    };
    wait_for(1);
    call.at(1);
    wait_for(2);
    drop(writer);
    call.at(1);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(read(), Some(2), "nobody writes any more");
}
