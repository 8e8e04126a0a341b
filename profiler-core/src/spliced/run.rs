//! A process of `mlprof run`: its profilers from before `main` to the end.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::lines_and_samples::LinesAndSamples;
use super::listening;
use super::results::{claim_name, output_of};
use super::signals;
use super::wanted_word::{want, wanted};
use crate::active::{activate_beside, hands_on};
use crate::allocation::AllocationProfiler;
use crate::report::LineCountRestriction;
use crate::report::internals::{
    ClaimedName, has_numbers, little_beside_stages, reason_for_nothing,
};
use crate::report::number::duration;
use crate::several::Several;
use crate::tensor::InvalidSchedule;
use crate::{
    Activated, AdvancedProfiler, NumericsProfiler, Output, Profiler, Report, TensorProfiler,
    allocation, hook, output, watcher,
};
use profiler_events::forking::{Mutex, MutexGuard};
use profiler_events::run::process_record;
use profiler_events::run::{AdvancedSettings, RUN_VARIABLE, RunSettings, TensorSettings};

/// What is measured in this process because `mlprof run` said so.
struct Run {
    /// Not that of a forked child, which has its parent's memory.
    process: u32,
    /// Hooks were put into ops.
    has_ops: bool,
    parts: Vec<Arc<dyn Profiler>>,
    /// The first of them is the Tensor profiler.
    has_tensor: bool,
    /// All of them as one.
    profiler: Option<Arc<dyn Profiler>>,
    activated: Option<Activated>,
    /// Also held, for a moment, by who writes what there is so far.
    lines_and_samples: Arc<LinesAndSamples>,
    began: Instant,
    /// What its files are called.
    name: ClaimedName,
}

static RUN: Mutex<Option<Run>> = Mutex::new(None);

/// Held while results are written.
static SPILLING: Mutex<()> = Mutex::new(());

/// From one time that results are written to the next, where that takes no time.
const SPILL_INTERVAL: Duration = Duration::from_secs(1);

/// How often this process was forked.
static FORKS: AtomicU32 = AtomicU32::new(0);

fn lock() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what the settings say, if there are any.
pub(super) fn start() {
    let Some(path) = std::env::var_os(RUN_VARIABLE).filter(|_| !is_part_of_a_build()) else {
        return;
    };
    let settings = match RunSettings::read(Path::new(&path)) {
        Ok(settings) => settings,
        Err(error) => return not_measured(&error),
    };
    restore_environment(&settings);
    if let Some(folder) = &settings.processes {
        process_record::begin(folder);
    }
    let name = claim_name(&settings);
    process_record::writes(name.name());
    let parts = match make(&settings, name.name()) {
        Ok(parts) => parts,
        Err(error) => {
            process_record::reported();
            return not_measured(&error);
        }
    };
    let profiler = Several::of(parts.clone());
    settings.frameworks.iter().for_each(|framework| hook::declare_ops_of(framework));
    want(wanted::STEPS, settings.tensor.is_some() || settings.numerics.is_some());
    listening::begin(&settings);
    want(wanted::ALLOCATIONS, settings.measures_memory());
    allocation::listen();
    let activated = profiler.clone().map(activate_beside);
    let lines_and_samples =
        LinesAndSamples::start(&settings, |what| output_of(&settings, name.name(), what));
    if profiler.is_none() && !lines_and_samples.is_any() {
        return process_record::reported();
    }
    *lock() = Some(Run {
        process: std::process::id(),
        has_ops: !settings.frameworks.is_empty(),
        has_tensor: settings.tensor.is_some(),
        parts,
        profiler,
        activated,
        lines_and_samples: Arc::new(lines_and_samples),
        began: Instant::now(),
        name,
    });
    at_exit();
    signals::watch(|signal| finish(Some(signal)), spill);
}

fn not_measured(error: &dyn std::error::Error) {
    output::say(format_args!("mlprof: {error}; the program runs without being measured"));
}

/// What `mlprof run` told cargo is not meant for the program.
fn restore_environment(settings: &RunSettings) {
    for (name, value) in &settings.environment {
        if std::env::var_os(name) == *value {
            continue; // another copy of this crate was here before
        }
        // SAFETY: this is before `main`, when there are no other threads yet.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }
}

/// Whether this process is a build script, or a compiler that has loaded a procedural macro: it was
/// started while the program was built, not by the user.
fn is_part_of_a_build() -> bool {
    let is_build_script =
        ["HOST", "NUM_JOBS", "OPT_LEVEL"].iter().all(|name| std::env::var_os(name).is_some());
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    is_build_script || ["rustc", "rustdoc", "clippy-driver"].contains(&program)
}

#[cfg(unix)]
fn at_exit() {
    extern "C" fn exiting() {
        #[cfg(target_os = "linux")]
        super::crash::let_die();
        finish(None);
    }
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only counts. It fails only without memory: then nothing is said of forks.
    unsafe { libc::pthread_atfork(None, Some(forked), None) };
    // SAFETY: the function is there as long as the library is, from which it is removed when that is
    // unloaded, and does not unwind.
    let refused = unsafe { libc::atexit(exiting) } != 0;
    if refused {
        output::say("mlprof: no report can be made at the end of the process");
    }
}

#[cfg(not(unix))]
fn at_exit() {}

fn make(settings: &RunSettings, name: &str) -> Result<Vec<Arc<dyn Profiler>>, InvalidSchedule> {
    let mut parts: Vec<Arc<dyn Profiler>> = Vec::new();
    if let Some(tensor) = &settings.tensor {
        parts.push(Arc::new(make_tensor(tensor, output_of(settings, name, "ops"))?));
    }
    if let Some(numerics) = &settings.numerics {
        let output = output_of(settings, name, "numerics");
        let profiler = NumericsProfiler::new().every(numerics.every).ops(true).output_to(output);
        parts.push(Arc::new(profiler));
    }
    if let Some(advanced) = &settings.advanced {
        parts.push(Arc::new(make_advanced(advanced, output_of(settings, name, "functions"))));
    }
    if settings.allocations {
        let output = output_of(settings, name, "memory");
        parts.push(Arc::new(AllocationProfiler::new().output_to(output)));
    }
    Ok(parts)
}

fn make_tensor(
    settings: &TensorSettings,
    output: Output,
) -> Result<TensorProfiler, InvalidSchedule> {
    let group_by = settings.group_by;
    let mut profiler = TensorProfiler::new()
        .group_by_input_shapes(group_by.input_shapes)
        .group_by_stack_n(group_by.stack)
        .group_by_module(group_by.module)
        .group_by_phase(group_by.phase)
        .profile_memory(settings.memory)
        .memory_timeline(settings.memory)
        .flame(settings.flame)
        .with_flops(settings.with_flops)
        .with_stack(settings.with_stack)
        .output_to(output);
    if let Some(rows) = settings.row_limit {
        profiler = profiler.row_limit(rows);
    }
    match settings.schedule {
        None => Ok(profiler.record_without_steps(true)),
        Some(schedule) => profiler.schedule(schedule),
    }
}

fn make_advanced(settings: &AdvancedSettings, output: Output) -> AdvancedProfiler {
    let restriction = settings.line_count.map(LineCountRestriction::Lines).unwrap_or_default();
    AdvancedProfiler::new()
        .line_count_restriction(restriction)
        .dump_stats(settings.dump_stats)
        .output_to(output)
}

/// The profiler that `mlprof run` has given this process, if it has; from before `main` to the end.
pub fn profiler_of_run() -> Option<Arc<dyn Profiler>> {
    lock().as_ref().and_then(|run| run.profiler.clone())
}

/// Whether `mlprof run` has put hooks into the ops of any framework.
pub(super) fn has_ops() -> bool {
    lock().as_ref().is_some_and(|run| run.has_ops)
}

/// A profiler that the program has chosen, and the one of the run besides.
pub(crate) fn with_run(profiler: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    let Some(runs_own) = profiler_of_run() else { return profiler };
    if hands_on(&profiler, &runs_own) {
        profiler
    } else if profiler.is_enabled() {
        Several::beside(profiler, runs_own)
    } else {
        runs_own
    }
}

/// What `mlprof run` has had measured so far beside its profiler: lines and samples. *Cost*: for samples debug information
/// is read, which may take seconds.
pub fn lines_and_samples_so_far() -> Vec<Report> {
    // Until it is let go of the end of the process waits: it must not find somebody else to have it.
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    let run = lock();
    let run_here = run.as_ref().filter(|run| run.process == std::process::id());
    let measured = run_here.map(|run| run.lines_and_samples.clone());
    drop(run);
    let reports = |measured: Arc<LinesAndSamples>| {
        measured.reports_so_far(true).into_iter().map(|(_, report)| report).collect()
    };
    measured.map(reports).unwrap_or_default()
}

/// A training step has ended, where no training loop of ours says so itself: on any thread, for the
/// steps of a schedule are the process's.
pub(super) fn step() {
    if crate::active::RunningLoop::is_any() {
        return;
    }
    if let Some(profiler) = profiler_of_run() {
        profiler.step();
    }
    watcher::step();
}

/// Another copy of this crate measures instead: nothing was recorded yet.
pub(super) fn abandon() {
    watcher::stop_listening();
    signals::leave();
    process_record::leave();
    drop(lock().take());
}

/// Delivers what was not delivered yet. Further calls do nothing. `signal` is what ends the process,
/// if that is one.
fn finish(signal: Option<i32>) {
    let Some(run) = lock().take_if(|run| run.process == std::process::id()) else { return };
    // What is being written now would come later than what is final.
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(run.activated);
    let notes = notes(signal);
    // Nobody else has it: that would be who spills.
    if let Some(lines_and_samples) = Arc::into_inner(run.lines_and_samples) {
        lines_and_samples.finish(&notes);
    }
    for part in &run.parts {
        let part = AssertUnwindSafe(part);
        if catch_unwind(|| deliver(&***part, &notes)).is_err() {
            output::say("mlprof: the profiler panicked while it made its report");
        }
    }
    process_record::reported();
    // Now that its files are there it need not be claimed any more.
    drop(run.name);
}

/// Writes what was counted and sampled so far, for the case that the process ends in a way that leaves
/// no time for a report; when to do so again. It takes a hundredth of the time at most.
fn spill() -> Option<Duration> {
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (parts, lines_and_samples, so_far) = match &*lock() {
        // Steps are written when their cycle is over.
        Some(run) if run.process == std::process::id() => {
            let parts = run.parts[usize::from(run.has_tensor)..].to_vec();
            (parts, run.lines_and_samples.clone(), run.began.elapsed())
        }
        _ => return None,
    };
    let began = Instant::now();
    for part in &parts {
        let part = AssertUnwindSafe(part);
        // It is said when the report is made in earnest.
        let _ = catch_unwind(|| spill_part(&***part));
    }
    let lines_and_samples = AssertUnwindSafe(lines_and_samples);
    let _ = catch_unwind(|| {
        for (output, report) in lines_and_samples.reports_so_far(so_far >= SPILL_INTERVAL) {
            spill_report(output, report);
        }
    });
    Some(spills_after(so_far, began.elapsed()))
}

/// From one time that results are written to the next. The first come early, for processes that live
/// for a moment: each time after twice as long a run as the last one, up to the interval.
fn spills_after(so_far: Duration, took: Duration) -> Duration {
    so_far.min(SPILL_INTERVAL).max(took * 100)
}

fn spill_part(profiler: &dyn Profiler) {
    let Some(output) = profiler.output() else { return };
    let Some(report) = profiler.report() else { return };
    let is_of_a_stage = report.header().stage.is_some();
    // Stages are written when they end.
    let is_done = is_of_a_stage != output.is_in_a_stage();
    if !is_done && output.stage().is_some() == is_of_a_stage {
        spill_report(output, report);
    }
}

fn spill_report(output: &Output, mut report: Report) {
    if !has_numbers(&report) {
        return;
    }
    let note = "written while the process still ran: it may have ended in a way that leaves no time \
                for a report (SIGKILL, _exit, exec)";
    report.header_mut().notes.push(note.to_owned());
    if let Ok(json) = report.to_json() {
        output.write_file(None, "json", json.as_bytes());
    }
}

/// What is to be said of the process's end.
fn notes(signal: Option<i32>) -> Vec<String> {
    let signal = signal.map(|signal| {
        let name = signal_hook::low_level::signal_name(signal);
        let name = name.map_or_else(|| format!("signal {signal}"), str::to_owned);
        format!("the process was ended by {name}: numbers are those until then")
    });
    let forks = Some(FORKS.load(Ordering::Relaxed)).filter(|forks| *forks > 0).map(|forks| {
        format!(
            "the process was forked {forks} times: what forked children did is not in these \
             numbers"
        )
    });
    signal.into_iter().chain(forks).collect()
}

/// Has a profiler report what it has not reported.
fn deliver(profiler: &dyn Profiler, notes: &[String]) {
    // Only to see whether there is anything; what is delivered is measured once, below.
    let Some(report) = profiler.report() else { return };
    let output = profiler.output();
    let is_in_a_stage = output.is_some_and(Output::is_in_a_stage);
    let is_of_a_stage = report.header().stage.is_some();
    if is_of_a_stage && !is_in_a_stage {
        return; // it came at the end of its stage
    }
    let is_after_a_stage = output.is_some_and(|output| output.stage().is_some());
    if is_after_a_stage
        && !is_of_a_stage
        && !has_numbers(&report)
        && !matches!(report, Report::Tensor(_))
    {
        return; // there was something before
    }
    // What is noted of the numbers is noted of those that are delivered: other threads go on.
    let rendered = profiler.render();
    if let (Some(output), Some(report)) = (output, rendered.report()) {
        notes.iter().for_each(|note| output.note(note));
        if !has_numbers(report)
            && !is_after_a_stage
            && let Some(reason) = reason_for_nothing(report)
        {
            output.note(reason);
        }
        note_open(output, report);
        // After the last stage: its file is not that of what came later.
        if !is_of_a_stage {
            output.leave_stages();
        }
        if is_after_a_stage && let Some(seconds) = little_beside_stages(report) {
            output.stop_printing();
            output::say(format_args!(
                "mlprof: outside of its stages the program spent {} in ops and actions: that report is only written",
                duration(seconds)
            ));
        }
    }
    rendered.deliver(output);
    profiler.teardown(None);
}

/// Calls that did not come to their end are in no row.
fn note_open(output: &Output, report: &Report) {
    let open = report.open();
    if !open.is_empty() {
        output.note(format!(
            "{} calls were still open when the process ended; they are not counted in the rows",
            open.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_written_early_then_every_second_and_take_a_hundredth_of_the_time() {
        let milliseconds = Duration::from_millis;
        let mut run = signals::FIRST_SPILL;
        let mut moments = vec![run];
        while run < milliseconds(4000) {
            run += spills_after(run, milliseconds(0));
            moments.push(run);
        }
        assert_eq!(moments, [100, 200, 400, 800, 1600, 2600, 3600, 4600].map(milliseconds));
        assert_eq!(spills_after(milliseconds(100), milliseconds(30)), milliseconds(3000));
        assert_eq!(spills_after(milliseconds(9000), milliseconds(2)), SPILL_INTERVAL);
    }
}
