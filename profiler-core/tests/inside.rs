//! Tests of `profile!` where a profiler may already be at work: in a signal handler, in the
//! program's allocator, and in destructors of an ending thread. The program must not hang, and lost
//! scopes must be counted.
//!
//! Each scene runs in its own process, because the allocator and signals belong to the whole
//! process.

#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mlprof_core::report::SimpleReport;
use mlprof_core::{
    Action, ActiveScope, AdvancedProfiler, Interest, NeverStarted, Profiler, ProfilerExt,
    RunContext, Session, SimpleProfiler, Stage, activate, profile,
};

const SCENE: &str = "MLPROF_TEST_SCENE";
/// Name of the test that plays a scene in the child process.
const PLAYER: &str = "scene_of_another_process";
/// Maximum duration of a scene. A longer one counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// Allocator that measures itself once this is enabled.
struct Measured;

static IS_MEASURED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _scope = IS_MEASURED.load(Ordering::Relaxed).then(|| {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            profile!("allocate")
        });
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let measures = IS_MEASURED.load(Ordering::Relaxed);
        // This scope covers the other code path, in which the name is looked up.
        let free = || Action::from("free");
        let _scope = measures.then(|| ActiveScope::open(free, Interest::ACTIONS));
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measured = Measured;

#[test]
fn scene_of_another_process() {
    match std::env::var(SCENE).as_deref() {
        Ok("allocator") => allocator(),
        Ok("signals") => signals(),
        Ok("end of a thread") => end_of_a_thread(),
        Ok(other) => panic!("no scene {other:?}"),
        Err(_) => return,
    }
    println!("played to the end");
}

/// Plays a scene in a process of its own, which must end.
fn play(scene: &str) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([PLAYER, "--exact", "--nocapture"])
        .env(SCENE, scene)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("its status") {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().expect("killed");
            panic!("{scene}: it hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut text = String::new();
    let mut output = child.stdout.take().expect("its output");
    std::io::Read::read_to_string(&mut output, &mut text).expect("text");
    assert!(status.success() && text.contains("played to the end"), "{scene}: {status}: {text}");
}

#[test]
fn an_allocator_may_be_measured() {
    play("allocator");
}

#[test]
fn a_signal_handler_may_open_scopes() {
    play("signals");
}

#[test]
fn destructors_of_a_thread_that_ends_are_measured_or_counted() {
    play("end of a thread");
}

/// Checks that a scope that is open during the report is listed as open, and is counted when it
/// ends.
#[test]
fn a_guard_that_outlives_its_session_is_said_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let simple = Arc::new(SimpleProfiler::new().dirpath(folder.path()).filename("run"));
    let run = RunContext::default();
    let session = Session::begin(simple.clone(), Stage::Fit, &run).expect("a profiler");
    let guard = profile!("outlives");
    let (open, opened) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let worker = std::thread::spawn(move || {
        let _guard = profile!("outlives elsewhere");
        open.send(()).expect("heard");
        let _ = ended.recv();
    });
    opened.recv().expect("opened");
    drop(session);
    let text = std::fs::read_to_string(folder.path().join("fit-run.txt")).expect("a report");
    for name in ["outlives on", "outlives elsewhere on"] {
        assert!(text.contains(&format!("Still running: {name}")), "{name}: {text}");
    }
    drop((guard, end));
    worker.join().expect("no panic");
    let report = simple.snapshot();
    assert_eq!((calls(&report, "outlives"), calls(&report, "outlives elsewhere")), (1, 1));
    assert_eq!(report.open, []);
}

fn calls(report: &SimpleReport, action: &str) -> u64 {
    report.actions.iter().filter(|row| row.action == action).map(|row| row.calls).sum()
}

fn allocator() {
    let simple = Arc::new(SimpleProfiler::new());
    // The allocator is measured all the time, so that every part of the profiler runs inside it.
    IS_MEASURED.store(true, Ordering::Relaxed);
    let active = activate(simple.clone());
    for number in 0..3000 {
        let name = format!("name {number}");
        drop(ActiveScope::open(|| Action::new(&name), Interest::ACTIONS));
    }
    for _ in 0..20 {
        std::thread::scope(|threads| {
            threads.spawn(|| drop((profile!("worker"), vec![1])));
            // This thread's first action is a report.
            threads.spawn(|| drop(simple.summary()));
        });
        let advanced = Arc::new(AdvancedProfiler::new());
        let inner = activate(advanced.clone());
        drop((profile!("inner"), vec![1], advanced.summary()));
        drop(inner);
    }
    let report = simple.snapshot();
    let run = RunContext::default();
    for stage in [Stage::Fit, Stage::Validate, Stage::Test] {
        simple.setup(stage, &run);
        // Here the report itself is this thread's first allocation in the stage.
        drop(simple.snapshot());
        simple.teardown(Some(stage));
        drop(simple.snapshot());
    }
    drop(active);
    IS_MEASURED.store(false, Ordering::Relaxed);
    assert_eq!(calls(&report, "name 2999"), 1);
    assert_eq!(calls(&report, "worker"), 20);
    assert!(calls(&report, "allocate") > 3000, "{}", calls(&report, "allocate"));
    assert!(calls(&report, "allocate") <= ALLOCATIONS.load(Ordering::Relaxed));
    assert!(calls(&report, "free") > 3000, "{}", calls(&report, "free"));
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    drop(profile!("in the handler"));
    // This scope looks up its name each time, because it has no call site.
    drop(ActiveScope::open(|| Action::new("in the handler, by name"), Interest::ACTIONS));
}

fn signals() {
    let simple = Arc::new(SimpleProfiler::new());
    let _active = activate(simple.clone());
    // The first call allocates everything that the handler needs, because a handler must not
    // allocate.
    handler(0);
    HANDLED.store(0, Ordering::Relaxed);
    // SAFETY: the handler is async-signal-safe, and `pthread_self` has no preconditions.
    let this_thread = unsafe {
        libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t);
        libc::pthread_self()
    };
    let is_over = AtomicBool::new(false);
    let mut names = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: `this_thread` is alive, because it waits for this thread in the scope.
                unsafe { libc::pthread_kill(this_thread, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        while names < 2000 || HANDLED.load(Ordering::Relaxed) < 500 {
            // The names are new at first and are looked up later, so memory use stays bounded.
            let name = format!("name {}", names % 4000);
            drop(ActiveScope::open(|| Action::new(&name), Interest::ACTIONS));
            drop(profile!("outside of the handler"));
            names += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let report = simple.snapshot();
    assert_eq!(calls(&report, "outside of the handler"), names);
    let handled = HANDLED.load(Ordering::Relaxed) + 1;
    let seen = calls(&report, "in the handler");
    assert!((1..=handled).contains(&seen), "{seen} of {handled}");
}

/// Thread-local value that opens a scope in its destructor.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        drop(profile!("late"));
    }
}

fn end_of_a_thread() {
    thread_local! {
        static EARLY: Late = const { Late };
        static LATE: Late = const { Late };
    }
    let simple = Arc::new(SimpleProfiler::new());
    let active = activate(simple.clone());
    for _ in 0..10 {
        let worker = || {
            // One thread-local is initialised before the profiler's own ones, the other after them.
            EARLY.with(|_| ());
            drop(profile!("work"));
            LATE.with(|_| ());
        };
        std::thread::spawn(worker).join().expect("no panic");
    }
    drop(active);
    let report = simple.snapshot();
    assert_eq!(calls(&report, "work"), 10);
    let counted = calls(&report, "late");
    let notes = &report.header.notes;
    let torn = notes.iter().find(|note| note.contains("made by exiting threads"));
    let lost = torn.and_then(|note| note.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    assert_eq!(counted + lost, 20, "{counted} in rows, {lost} lost: {notes:?}");

    // In this case the thread still has its table, but no longer knows its owner.
    let simple = Arc::new(SimpleProfiler::new());
    let active = activate(simple.clone());
    let profiler = simple.clone();
    let worker = move || {
        drop(profiler.profile("work"));
        EARLY.with(|_| ());
        drop(profile!("work"));
    };
    std::thread::spawn(worker).join().expect("no panic");
    drop(active);
    let report = simple.snapshot();
    assert_eq!((calls(&report, "work"), calls(&report, "late")), (2, 1), "{report:?}");

    // A profiler that opens scopes itself must also not recurse without end.
    let own = Arc::new(OpensScopes(AtomicU64::new(0)));
    let active = activate(own.clone());
    let worker = || {
        EARLY.with(|_| ());
        drop(profile!("work"));
    };
    std::thread::spawn(worker).join().expect("no panic");
    drop(active);
    assert_eq!(own.0.load(Ordering::Relaxed), 2);
}

/// Profiler that counts started actions and opens a scope itself.
struct OpensScopes(AtomicU64);

impl Profiler for OpensScopes {
    fn start(&self, _action: Action) {
        self.0.fetch_add(1, Ordering::Relaxed);
        drop(profile!("of the profiler"));
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }
}
