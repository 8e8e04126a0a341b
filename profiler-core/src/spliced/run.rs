//! A process of `mlprof run`, with its profilers from before `main` to the end.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::enabled_flags::{want, wanted};
use super::environment;
use super::lines_and_samples::LinesAndSamples;
use super::listening;
use super::profilers::make;
use super::results::{claim_name, output_of};
use super::signals;
use crate::active::{activate_beside, activate_in_place_of, hands_on};
use crate::multi::MultiProfiler;
use crate::report::internals::{
    ClaimedName, counted_were, has_numbers, little_beside_stages, reason_for_nothing,
};
use crate::report::number::duration;
use crate::{
    Activated, Output, Profiler, ProfilerExt, Report, allocation, forked_child, hook, lines,
    output, watcher,
};
use mlprof_events::clock::Stopwatch;
use mlprof_events::environment::variable;
use mlprof_events::forking::{Mutex, MutexGuard, this_process};
use mlprof_events::panics::contain;
use mlprof_events::run::process_record;
use mlprof_events::run::{RUN_VARIABLE, RunSettings};

/// Measurements in this process that `mlprof run` requested.
struct Run {
    /// [Process](this_process) that is measured. A forked child shares its parent's memory but is
    /// another process until it has its own run.
    process: u64,
    settings: RunSettings,
    parts: Vec<Arc<dyn Profiler>>,
    /// Set if the first part is the Tensor profiler.
    has_tensor: bool,
    /// All parts combined into one profiler.
    profiler: Option<Arc<dyn Profiler>>,
    activated: Option<Activated>,
    /// Also held briefly by code that writes intermediate results.
    lines_and_samples: Arc<LinesAndSamples>,
    began: Stopwatch,
    /// Claimed name of the result files.
    name: ClaimedName,
}

static RUN: Mutex<Option<Run>> = Mutex::new(None);

/// Held while results are written.
static SPILLING: Mutex<()> = Mutex::new(());

/// Minimum interval between two writes of intermediate results, if writing takes no time.
const SPILL_INTERVAL: Duration = Duration::from_secs(1);

/// Number of forks of this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

fn lock() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the run if there are settings for one.
pub(super) fn start() {
    let Some(path) = variable(RUN_VARIABLE).filter(|_| !environment::is_part_of_a_build()) else {
        return;
    };
    let settings = match RunSettings::read(Path::new(&path)) {
        Ok(settings) => settings,
        Err(error) => return not_measured(&error),
    };
    environment::restore(&settings);
    settings.frameworks.iter().for_each(|framework| hook::declare_ops_of(framework));
    want(wanted::STEPS, settings.tensor.is_some() || settings.numerics.is_some());
    listening::begin(&settings);
    want(wanted::ALLOCATIONS, settings.measures_memory());
    allocation::listen();
    if begin(settings, None) {
        at_exit();
    }
}

/// Begins the run of a forked child at its first measured call. From here on the child has its own
/// run, name, record and reports, which cover its work since the fork. Data measured by the parent
/// stays with the parent.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
fn start_in_child() {
    let Some(parent) = lock().take() else { return };
    let (settings, replaced) = (parent.settings.clone(), parent.profiler.clone());
    // The parent's run is neither ended nor freed. Its claim belongs to the parent, and its threads
    // do not exist here.
    std::mem::forget(parent);
    FORKS.store(0, Ordering::Relaxed);
    begin(settings, replaced);
}

/// Begins to measure this process. A forked child passes its parent's profiler as `replaced`.
/// Returns `false` if the run has no measurement.
fn begin(settings: RunSettings, replaced: Option<Arc<dyn Profiler>>) -> bool {
    if let Some(folder) = &settings.processes {
        process_record::begin(folder);
    }
    let name = claim_name(&settings);
    process_record::writes(name.name());
    let parts = match make(&settings, name.name()) {
        Ok(parts) => parts,
        Err(error) => {
            process_record::reported();
            not_measured(&error);
            return false;
        }
    };
    let profiler = MultiProfiler::of(parts.clone());
    let activated = profiler.clone().map(|profiler| match &replaced {
        Some(replaced) => activate_in_place_of(replaced, profiler),
        None => activate_beside(profiler),
    });
    let lines_and_samples =
        LinesAndSamples::start(&settings, |what| output_of(&settings, name.name(), what));
    if profiler.is_none() && !lines_and_samples.is_any() {
        process_record::reported();
        return false;
    }
    *lock() = Some(Run {
        process: this_process(),
        has_tensor: settings.tensor.is_some(),
        settings,
        parts,
        profiler,
        activated,
        lines_and_samples: Arc::new(lines_and_samples),
        began: Stopwatch::start(),
        name,
    });
    signals::watch(|signal| finish(Some(signal)), spill);
    true
}

fn not_measured(error: &(dyn std::error::Error + 'static)) {
    output::say(format_args!("mlprof: {error:?}; the program runs without a profiler"));
}

/// Marks the process as a forked child, called by a fork handler. The first measured call then does
/// the remaining work.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
fn in_child() {
    forked_child::begins();
    crate::active::take_slow_path();
    lines::begin_in_child();
}

/// Does the pending work of a forked child before it exits. It may not have been done if the child
/// only ran lines of functions that were active at the fork.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
fn catch_up_at_exit() {
    if forked_child::is_due() && lines::has_run() {
        forked_child::catch_up();
    }
}

#[cfg(unix)]
fn at_exit() {
    extern "C" fn exiting() {
        // A panic must not unwind into C. It would abort a program that had ended successfully.
        let ended = contain(|| {
            #[cfg(target_os = "linux")]
            super::crash::let_die();
            catch_up_at_exit();
            finish(None);
        });
        if let Err(message) = ended {
            output::say(format_args!(
                "mlprof: cannot make the report at the end of the process: the profiler panicked: {message}"
            ));
        }
    }
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    extern "C" fn forked_child() {
        in_child();
    }
    forked_child::before_first_call(start_in_child);
    // SAFETY: the handlers only count, set flags, and change tallies that no other thread accesses
    // in the child. Registration fails only without memory; then forks are not reported.
    unsafe { libc::pthread_atfork(None, Some(forked), Some(forked_child)) };
    // SAFETY: `exiting` lives as long as its library, and the C library removes it when that
    // library is unloaded. It does not unwind.
    let refused = unsafe { libc::atexit(exiting) } != 0;
    if refused {
        output::say("mlprof: cannot make a report at the end of the process");
    }
}

#[cfg(not(unix))]
fn at_exit() {}

/// Returns the profiler that `mlprof run` created for this process, if any. It exists from before
/// `main` to the end.
pub fn profiler_of_run() -> Option<Arc<dyn Profiler>> {
    // In a forked child, the profiler must be the child's own.
    forked_child::catch_up();
    lock().as_ref().and_then(|run| run.profiler.clone())
}

/// Returns `true` if `mlprof run` has instrumented the ops of any framework.
pub(super) fn has_ops() -> bool {
    lock().as_ref().is_some_and(|run| !run.settings.frameworks.is_empty())
}

/// Combines a profiler chosen by the program with the profiler of the run.
pub(crate) fn with_run(profiler: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    let Some(runs_own) = profiler_of_run() else { return profiler };
    if hands_on(&profiler, &runs_own) {
        profiler
    } else if profiler.is_enabled() {
        MultiProfiler::beside(profiler, runs_own)
    } else {
        runs_own
    }
}

/// Returns the lines and samples that `mlprof run` has measured so far. *Cost*: for samples it
/// reads debug information, which may take seconds.
pub fn lines_and_samples_so_far() -> Vec<Report> {
    // The lock makes the end of the process wait until this clone of the measurements is dropped.
    // Otherwise `finish` would not be their only owner.
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    let run = lock();
    let run_here = run.as_ref().filter(|run| run.process == this_process());
    let measured = run_here.map(|run| run.lines_and_samples.clone());
    drop(run);
    let reports = |measured: Arc<LinesAndSamples>| {
        measured.reports_so_far(true).into_iter().map(|(_, report)| report).collect()
    };
    measured.map(reports).unwrap_or_default()
}

/// Records the end of a training step, unless one of mlprof's training loops reports its steps
/// itself. It may come from any thread, because a schedule counts the steps of the process.
pub(super) fn step() {
    if crate::active::RunningLoop::is_any() {
        return;
    }
    if let Some(profiler) = profiler_of_run() {
        profiler.step();
    }
    watcher::step();
}

/// Abandons the run before anything was recorded, because another copy of this crate measures
/// instead.
pub(super) fn abandon() {
    watcher::stop_listening();
    signals::leave();
    process_record::leave();
    drop(lock().take());
}

/// Delivers all results that were not delivered yet. Further calls have no effect. `signal` is the
/// signal that ends the process, if any.
fn finish(signal: Option<i32>) {
    let Some(run) = lock().take_if(|run| run.process == this_process()) else { return };
    // A write of intermediate results must end first, because it would overwrite the final results.
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    whatever_panics(|| drop(run.activated));
    let notes = notes(signal);
    // No other owner exists, because only a write of intermediate results shares it.
    if let Some(lines_and_samples) = Arc::into_inner(run.lines_and_samples) {
        whatever_panics(|| lines_and_samples.finish(&notes));
    }
    run.parts.iter().for_each(|part| whatever_panics(|| deliver(&**part, &notes)));
    process_record::reported();
    // The files exist now, so the name need not be claimed any longer.
    drop(run.name);
}

/// Makes one of several reports. A panic affects only this report, not the others or the end of the
/// program.
fn whatever_panics(make: impl FnOnce()) {
    if let Err(message) = contain(make) {
        output::say(format_args!("mlprof: cannot make a report: the profiler panicked: {message}"));
    }
}

/// Writes the intermediate counts and samples, in case the process ends without time for a report.
/// Returns the delay until the next write. Writing takes at most a hundredth of the run time.
fn spill() -> Option<Duration> {
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (parts, lines_and_samples, so_far) = match &*lock() {
        // The Tensor profiler is left out, because it writes steps when their cycle ends.
        Some(run) if run.process == this_process() => {
            let parts = run.parts[usize::from(run.has_tensor)..].to_vec();
            (parts, run.lines_and_samples.clone(), run.began.elapsed())
        }
        _ => return None,
    };
    let began = Stopwatch::start();
    for part in &parts {
        // A panic is ignored here, because it is reported when the final report is made.
        let _ = contain(|| spill_part(&**part));
    }
    let _ = contain(|| {
        for (output, report) in lines_and_samples.reports_so_far(so_far >= SPILL_INTERVAL) {
            spill_report(output, report);
        }
    });
    Some(spills_after(so_far, began.elapsed()))
}

/// Returns the delay between two writes. The first writes come early, for short-lived processes.
/// Each comes after twice the run time of the previous one, up to the interval.
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
    let note = "this report was written while the process was running: the process may have ended \
                without time for a report (SIGKILL, _exit, exec)";
    report.header_mut().notes.push(note.to_owned());
    if let Ok(json) = report.to_json() {
        output.write_file(None, "json", json.as_bytes());
    }
}

/// Returns the notes about the end of the process.
fn notes(signal: Option<i32>) -> Vec<String> {
    let signal = signal.map(|signal| {
        let name = signals::name(signal);
        let name = name.map_or_else(|| format!("signal {signal}"), str::to_owned);
        format!("the process was ended by {name}, so the numbers end there")
    });
    let forks = Some(FORKS.load(Ordering::Relaxed)).filter(|forks| *forks > 0).map(|forks| {
        format!(
            "the process was forked {forks} times: the numbers exclude its children; children that \
             called a measured function have their own reports"
        )
    });
    signal.into_iter().chain(forks).collect()
}

/// Delivers the results of a profiler that it has not delivered yet.
fn deliver(profiler: &dyn Profiler, notes: &[String]) {
    // This report only shows if there is anything to deliver. The delivered report is made once,
    // below.
    let Some(report) = profiler.report() else { return };
    let output = profiler.output();
    let is_in_a_stage = output.is_some_and(Output::is_in_a_stage);
    let is_of_a_stage = report.header().stage.is_some();
    if is_of_a_stage && !is_in_a_stage {
        return; // it was delivered at the end of its stage
    }
    let is_after_a_stage = output.is_some_and(|output| output.stage().is_some());
    if is_after_a_stage
        && !is_of_a_stage
        && !has_numbers(&report)
        && !matches!(report, Report::Tensor(_))
    {
        return; // the reports of earlier stages were delivered
    }
    // The notes must describe the rendered report, because other threads continue to record.
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
        // Results after the last stage must not use the stage's file name.
        if !is_of_a_stage {
            output.leave_stages();
        }
        if is_after_a_stage && let Some(seconds) = little_beside_stages(report) {
            output.stop_printing();
            output::say(format_args!(
                "mlprof: the program spent {} in ops and actions outside of its stages: that \
                 report is written to a file only",
                duration(seconds)
            ));
        }
    }
    rendered.deliver(output);
    profiler.teardown(None);
}

/// Adds a note about calls that are still open and thus in no row.
fn note_open(output: &Output, report: &Report) {
    let open = report.open();
    if !open.is_empty() {
        output.note(format!(
            "{} still open when the process ended; they are not in the rows",
            counted_were(open.len() as u64, "call", "calls")
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
