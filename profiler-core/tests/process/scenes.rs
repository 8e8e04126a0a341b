//! Scenes of the child processes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use mlprof_core::report::{AdvancedReport, SimpleReport};
use mlprof_core::spliced::sink;
use mlprof_core::startup::process_startup;
use mlprof_core::{
    AdvancedProfiler, Profiler, ProfilerExt, Report, RunContext, SimpleProfiler, Stage,
    profile_dynamic,
};

use crate::environment;

/// Acts like a slow shared library. It runs before this crate's constructor and before `main`.
extern "C" fn slow_start() {
    // SAFETY: the name is a C string, and libc may be used in constructors.
    if !unsafe { libc::getenv(c"MLPROF_TEST_SLOW_START".as_ptr()) }.is_null() {
        // SAFETY: `usleep` has no preconditions.
        unsafe { libc::usleep(200_000) };
    }
}

// SAFETY: `.init_array` contains pointers to functions with the C calling convention, as this one.
// The number in the section name orders it before sections without one.
#[used]
#[unsafe(link_section = ".init_array.00050")]
static SLOW_START: extern "C" fn() = slow_start;

pub fn play(scene: &str) {
    match scene {
        "stages" => stages(),
        "advanced" => advanced(),
        "worker first" => worker_first(),
        "forked" => forked(),
        "forks while others work" => super::forks::while_others_work(),
        "too many files" => too_many_files(),
        "ranks" => ranks(),
        "of a run" => of_a_run(),
        "forks of a run" => super::run_forks::play(),
        "deep without memory" => deep_without_memory(),
        "environment" => environment::stages(),
        "environment of a run" => {
            static WANTED: AtomicU32 = AtomicU32::new(0);
            (sink().begin)(&WANTED);
            environment::stages();
        }
        "environment steps" => environment::steps(),
        "environment passed on" => environment::passed_on(),
        other => panic!("no scene {other:?}"),
    }
}

fn print(report: SimpleReport) {
    let json = serde_json::to_string(&report).expect("a report is JSON");
    println!("{json}");
}

fn stages() {
    assert_eq!(process_startup(), None, "before the first action");
    let profiler = SimpleProfiler::new();
    // A report before the first action runs a calibration, which does not count as an action of the
    // program.
    assert!(profiler.snapshot().header.startup.is_none());
    assert_eq!(process_startup(), None, "a calibration is no action");
    std::thread::sleep(Duration::from_millis(100));
    drop(profiler.profile("before_any_stage"));
    let startup = process_startup().expect("known");
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("training_step"));
    let other = SimpleProfiler::new();
    drop(other.profile("other"));
    print(profiler.snapshot());
    print(other.snapshot());
    println!("{}", serde_json::to_string(&profiler.summary()).expect("text"));
    let detailed = profiler.detailed();
    println!("{}", serde_json::to_string(&detailed.summary()).expect("text"));
    detailed.teardown(Some(Stage::Fit));
    detailed.setup(Stage::Test, &RunContext::default());
    drop(detailed.profile("test_step"));
    print(detailed.snapshot());
    assert_eq!(process_startup(), Some(startup), "it stays what it was");
}

fn advanced() {
    let profiler = AdvancedProfiler::new();
    profiler.setup(Stage::Fit, &RunContext::default());
    profiler.setup(Stage::SanityCheck, &RunContext::default());
    drop(profiler.profile("validation_step"));
    profiler.teardown(Some(Stage::SanityCheck));
    let Some(Report::Advanced(report)) = profiler.report() else { panic!("no report") };
    let report: AdvancedReport = report;
    println!("{}", serde_json::to_string(&report).expect("a report is JSON"));
    print!("{}", profiler.summary());
}

fn worker_first() {
    let profiler = SimpleProfiler::new();
    std::thread::scope(|scope| scope.spawn(|| drop(profiler.profile("load"))).join())
        .expect("no panic");
    let startup = process_startup().expect("it has ended");
    std::thread::sleep(Duration::from_millis(50));
    assert!(profiler.snapshot().header.startup.is_none(), "no action on the main thread yet");
    drop(profiler.profile("train"));
    let report = profiler.snapshot();
    let shown = report.header.startup.expect("the first report of the main thread");
    assert_eq!(shown.total_seconds, startup.total.as_secs_f64(), "until the worker's action");
    print(report);
}

fn forked() {
    drop(SimpleProfiler::new()); // some work before the fork, but no action
    std::thread::sleep(Duration::from_millis(50)); // more than a tick of the kernel
    // SAFETY: the process has only one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("in_the_child"));
        assert_eq!(process_startup(), None);
        print(profiler.snapshot());
        return;
    }
    let mut status = 0;
    // SAFETY: `status` is a local variable, and `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's asserts held");
    // After an action, a child has a copy of the parent's memory but its own start time.
    let profiler = SimpleProfiler::new();
    drop(profiler.profile("in_the_parent"));
    assert!(process_startup().is_some());
    // SAFETY: the process has only one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        assert_eq!(process_startup(), None);
        std::process::exit(0);
    }
    // SAFETY: `status` is a local variable, and `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the second child's assert held");
}

fn too_many_files() {
    let profiler = SimpleProfiler::new().measure_io();
    let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    // SAFETY: `limit` is a local variable and valid during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    for _ in 0..3 {
        drop(profiler.profile("step"));
    }
    print(profiler.snapshot());
    print!("{}", profiler.summary());
}

/// Nests more scopes than fit without further memory, while the system has none.
fn deep_without_memory() {
    let (simple, advanced) = (SimpleProfiler::new(), AdvancedProfiler::new());
    let profilers: [&dyn Profiler; 2] = [&simple, &advanced];
    let deep = mlprof_core::Action::new("deep");
    let mut scopes = Vec::with_capacity(2 * 1000);
    profilers.iter().for_each(|profiler| drop(profiler.profile(deep)));
    let limit = |most| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` is a local variable and valid during the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    };
    limit(4096);
    for profiler in profilers {
        scopes.extend((0..1000).map(|_| profiler.profile(deep)));
        while scopes.pop().is_some() {}
    }
    limit(libc::RLIM_INFINITY);
    profilers.iter().for_each(|profiler| drop(profiler.profile(deep)));
    for profiler in profilers {
        let report = profiler.report().expect("a report");
        println!("{}", report.to_json().expect("JSON").replace('\n', " "));
    }
}

fn ranks() {
    for _ in 0..3 {
        let run = RunContext::from_environment();
        println!("rank {} {} of {}", run.rank, run.local_rank, run.world_size);
    }
    let profiler = SimpleProfiler::new();
    drop(profiler.profile("step"));
    profiler.describe();
}

/// Acts like a program that `mlprof run` has built: a runtime library has found this copy of the
/// crate.
fn of_a_run() {
    static WANTED: AtomicU32 = AtomicU32::new(0);
    (sink().begin)(&WANTED);
    let who = std::env::var("MLPROF_TEST_WHO").expect("a name");
    // The wait lets both processes run at the same time.
    std::thread::sleep(Duration::from_millis(300));
    drop(profile_dynamic!(format!("of {who}")));
    println!("{}", std::process::id());
}
