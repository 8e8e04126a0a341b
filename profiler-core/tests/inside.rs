//! `profile!` where a profiler may be at work already: in a signal handler, in the program's
//! allocator, and in destructors of a thread that ends. Nothing hangs, and what is lost is counted.
//!
//! Each scene is a process of its own: its allocator and its signals are.

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
/// The test that plays it there.
const PLAYER: &str = "scene_of_another_process";
/// A scene that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// An allocator that measures itself, once it is told to.
struct Measured;

static IS_MEASURED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _scope = IS_MEASURED.load(Ordering::Relaxed).then(|| {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            profile!("allocate")
        });
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let measures = IS_MEASURED.load(Ordering::Relaxed);
        // By another road: the name is looked up.
        let free = || Action::from("free");
        let _scope = measures.then(|| ActiveScope::open(free, Interest::ACTIONS));
        // SAFETY: as the caller promises.
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

/// What is still open when the report is made is in it as such, and counted when it ends.
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
    // The whole time: beginnings, names, threads, reports and ends.
    IS_MEASURED.store(true, Ordering::Relaxed);
    let active = activate(simple.clone());
    for number in 0..3000 {
        let name = format!("name {number}");
        drop(ActiveScope::open(|| Action::new(&name), Interest::ACTIONS));
    }
    for _ in 0..20 {
        std::thread::scope(|threads| {
            threads.spawn(|| drop((profile!("worker"), vec![1])));
            // A thread of which the report is the first that it does.
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
        // What this thread first allocates in the stage is in the report itself.
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
    // By its name, each time, which no callsite and no slot knows.
    drop(ActiveScope::open(|| Action::new("in the handler, by name"), Interest::ACTIONS));
}

fn signals() {
    let simple = Arc::new(SimpleProfiler::new());
    let _active = activate(simple.clone());
    // What a handler uses is made before: it may not allocate.
    handler(0);
    HANDLED.store(0, Ordering::Relaxed);
    // SAFETY: a handler that only does what it may; this thread's own name.
    let this_thread = unsafe {
        libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t);
        libc::pthread_self()
    };
    let is_over = AtomicBool::new(false);
    let mut names = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: that thread waits for this one.
                unsafe { libc::pthread_kill(this_thread, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        while names < 2000 || HANDLED.load(Ordering::Relaxed) < 500 {
            // Names are new for a while, and then looked up: memory is no matter of this.
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

/// Measures its end.
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
            // One is made before anything of the profiler's on this thread, one after it.
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
    let torn = notes.iter().find(|note| note.contains("made by threads that were being torn"));
    let lost = torn.and_then(|note| note.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    assert_eq!(counted + lost, 20, "{counted} in rows, {lost} lost: {notes:?}");

    // Where the thread still has its table, but knows no more whose its scopes are.
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

    // A profiler that opens scopes itself comes to an end, too.
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

/// Counts what is started.
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
