//! Runs trainings without a framework under each profiler, on a host without any system services.
//! `run.mjs` loads this program and checks the reports.

use std::sync::OnceLock;

use mlprof_core::{
    PROFILER_NAMES, Profiler, ProfilerExt, RunContext, Session, Stage, interrupt, profile, startup,
};

/// Number of steps in each training.
const STEPS: u64 = 3;

/// Separator between the reports.
const SEPARATOR: &str = "\n---\n";

fn step(profiler: &dyn Profiler, batch: u64) -> u64 {
    let _scope = profile!("training_step");
    let _inner = profiler.profile("forward");
    batch + 1
}

/// Returns the profiler's report of a whole stage.
fn report(name: &str) -> String {
    let session = match Session::begin(name, Stage::Fit, &RunContext::default()) {
        Ok(session) => session,
        Err(error) => return format!("{name}: {error}"),
    };
    let profiler = session.profiler().clone();
    let watch = interrupt::watch();
    let mut sum = 0;
    for batch in profiler.profile_iterable(0..STEPS, "train_dataloader_next") {
        sum += step(&*profiler, batch);
        profiler.step();
    }
    assert!(sum == 6 && !watch.requested());
    let text = profiler.summary();
    drop(session);
    format!("{name}: {text}")
}

fn reports() -> &'static str {
    static REPORTS: OnceLock<String> = OnceLock::new();
    REPORTS.get_or_init(|| {
        assert_eq!(startup::process_startup(), None);
        let reports: Vec<_> = PROFILER_NAMES.iter().map(|name| report(name)).collect();
        reports.join(SEPARATOR)
    })
}

/// Runs all trainings and returns the address of the reports' text.
// SAFETY: no other function of the program exports this symbol name.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> *const u8 {
    reports().as_ptr()
}

/// Returns the length of the reports' text in bytes.
// SAFETY: no other function of the program exports this symbol name.
#[unsafe(no_mangle)]
pub extern "C" fn length() -> usize {
    reports().len()
}
