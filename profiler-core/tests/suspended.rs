//! Tests of a machine that is suspended during measurement. The program simulates it with its own
//! `clock_gettime`. The monotonic clock stops for a while, and the counter and the clock that
//! includes suspensions continue.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mlprof_core::lines::LineProfiler;
use mlprof_core::{
    AdvancedProfiler, NumericsProfiler, Output, Profiler, ProfilerExt, RunContext, SimpleProfiler,
    Stage, TensorProfiler, activate,
};

/// Total suspension in nanoseconds.
static SUSPENDED: AtomicI64 = AtomicI64::new(0);

/// Frozen value of the monotonic clock in nanoseconds while the machine is suspended, otherwise 0.
static FROZEN: AtomicI64 = AtomicI64::new(0);

/// Replaces the C library's function for the standard library and all other callers.
///
/// # Safety
///
/// `time` must be valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> i32 {
    // SAFETY: the caller guarantees that `time` is valid for writes.
    let answer = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if answer == 0 && clock == libc::CLOCK_MONOTONIC {
        // SAFETY: the successful call has just initialised the value, and `time` is valid.
        let time = unsafe { &mut *time };
        let nanoseconds = time.tv_sec * 1_000_000_000 + time.tv_nsec;
        let nanoseconds = match FROZEN.load(Ordering::SeqCst) {
            0 => nanoseconds - SUSPENDED.load(Ordering::SeqCst),
            frozen => frozen,
        };
        (time.tv_sec, time.tv_nsec) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    }
    answer as i32
}

/// Suspends the machine for this time or slightly longer.
fn suspend(milliseconds: u64) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a local variable and valid for writes.
    unsafe { clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    FROZEN.store(now.tv_sec * 1_000_000_000 + now.tv_nsec, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(milliseconds));
    SUSPENDED.fetch_add(milliseconds as i64 * 1_000_000, Ordering::SeqCst);
    FROZEN.store(0, Ordering::SeqCst);
}

fn step(profiler: &dyn Profiler, action: &'static str, milliseconds: u64) {
    let scope = profiler.profile(action);
    std::thread::sleep(Duration::from_millis(milliseconds));
    drop(scope);
}

const NOTE: &str = "the machine was suspended for 0.8 s during this run: the times of actions that were open then \
                    include it";

#[test]
fn times_are_right_and_every_kind_of_report_names_the_time_suspended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let run = RunContext::default();
    let output = Output::new().dirpath(path).filename("run").json(true).html(true);
    let simple = SimpleProfiler::new().output_to(output);
    let advanced = AdvancedProfiler::new();
    #[cfg(feature = "sampling")]
    let sampler = mlprof_core::sampler::Sampler::start(100).expect("nothing else samples");
    let lines = LineProfiler::new();
    let tensor = Arc::new(TensorProfiler::new().without_schedule());
    let numerics = NumericsProfiler::new();
    let profilers: [&dyn Profiler; 4] = [&simple, &advanced, &*tensor, &numerics];
    for profiler in profilers {
        profiler.setup(Stage::Fit, &run);
    }
    let active = activate(tensor.clone());
    for _ in 0..3 {
        step(&simple, "step", 100);
    }
    let scope = simple.profile("open");
    suspend(800);
    drop(scope);
    step(&simple, "step", 100);

    let report = simple.snapshot();
    let row = |name: &str| {
        let row = report.actions.iter().find(|row| row.action == name);
        row.unwrap_or_else(|| panic!("{name} is in no row"))
    };
    // A rate computed over the whole time would give 40 ms.
    let mean = row("step").total_seconds / 4.0;
    assert!(mean >= 0.099, "{mean} s");
    assert!(row("open").total_seconds >= 0.799, "{} s", row("open").total_seconds);
    assert!(report.header.wall_seconds >= 1.19, "{} s", report.header.wall_seconds);

    let has_note = |notes: &[String]| notes.iter().filter(|note| *note == NOTE).count() == 1;
    assert!(has_note(&report.header.notes), "{:?}", report.header.notes);
    assert!(has_note(&advanced.snapshot().header.notes));
    assert!(has_note(&numerics.snapshot().header.notes));
    assert!(has_note(&lines.report().header.notes));
    assert!(has_note(&tensor.snapshot().header.notes));
    #[cfg(feature = "sampling")]
    assert!(has_note(&sampler.stop().samples.notes));
    drop(active);

    simple.teardown(Some(Stage::Fit));
    simple.describe();
    for ending in ["txt", "json", "html"] {
        let file = path.join(format!("fit-run.{ending}"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{ending}: {error}"));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("the machine was suspended for 0.8 s"), "{ending}: {text}");
    }

    // A later stage was not interrupted.
    simple.setup(Stage::Test, &run);
    step(&simple, "step", 1);
    let report = simple.snapshot();
    assert_eq!(report.header.stage, Some(Stage::Test));
    assert!(!has_note(&report.header.notes), "{:?}", report.header.notes);
}
