//! A process of `mlprof run`: its profilers from before `main` to the end.

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

/// What is measured in this process because `mlprof run` said so.
struct Run {
    /// [The process](this_process) that is measured. Not a forked child, which has its parent's
    /// memory, until it has a run of its own.
    process: u64,
    settings: RunSettings,
    parts: Vec<Arc<dyn Profiler>>,
    /// The first of them is the Tensor profiler.
    has_tensor: bool,
    /// All of them as one.
    profiler: Option<Arc<dyn Profiler>>,
    activated: Option<Activated>,
    /// Also held, for a moment, by who writes what there is so far.
    lines_and_samples: Arc<LinesAndSamples>,
    began: Stopwatch,
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

/// The first call of a forked child of a process that is measured: from here on the child has a
/// run, a name, a record and reports of its own, in which is what it did since the fork. What its
/// parent has measured stays the parent's.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
fn start_in_child() {
    let Some(parent) = lock().take() else { return };
    let (settings, replaced) = (parent.settings.clone(), parent.profiler.clone());
    // Neither ended nor freed: its claim is the parent's, and its threads are not here.
    std::mem::forget(parent);
    FORKS.store(0, Ordering::Relaxed);
    begin(settings, replaced);
}

/// Begins to measure this process, in place of what a forked child has `replaced`. False if nothing
/// is measured.
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
    output::say(format_args!("mlprof: {error:?}; the program runs without being measured"));
}

/// In a forked child, by a fork handler: the first call that is measured finds that it is one.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
fn in_child() {
    forked_child::begins();
    crate::active::take_slow_path();
    lines::begin_in_child();
}

/// A forked child ends whose only calls were of lines in functions that were running at the fork.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
fn catch_up_at_exit() {
    if forked_child::is_due() && lines::has_run() {
        forked_child::catch_up();
    }
}

#[cfg(unix)]
fn at_exit() {
    extern "C" fn exiting() {
        // No panic may leave a function that C calls: a program that had ended well would be
        // aborted.
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
    // SAFETY: the handlers count, set flags, and change tallies that nobody else has in the child.
    // It fails only without memory: then nothing is said of forks.
    unsafe { libc::pthread_atfork(None, Some(forked), Some(forked_child)) };
    // SAFETY: the function is there as long as the library is, from which it is removed when that is
    // unloaded, and does not unwind.
    let refused = unsafe { libc::atexit(exiting) } != 0;
    if refused {
        output::say("mlprof: no report can be made at the end of the process");
    }
}

#[cfg(not(unix))]
fn at_exit() {}

/// The profiler that `mlprof run` has given this process, if it has; from before `main` to the end.
pub fn profiler_of_run() -> Option<Arc<dyn Profiler>> {
    // In a forked child it is the child's own.
    forked_child::catch_up();
    lock().as_ref().and_then(|run| run.profiler.clone())
}

/// Whether `mlprof run` has put hooks into the ops of any framework.
pub(super) fn has_ops() -> bool {
    lock().as_ref().is_some_and(|run| !run.settings.frameworks.is_empty())
}

/// A profiler that the program has chosen, and the one of the run besides.
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

/// What `mlprof run` has had measured so far beside its profiler: lines and samples. *Cost*: for samples debug information
/// is read, which may take seconds.
pub fn lines_and_samples_so_far() -> Vec<Report> {
    // Until it is let go of the end of the process waits: it must not find somebody else to have it.
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
    let Some(run) = lock().take_if(|run| run.process == this_process()) else { return };
    // What is being written now would come later than what is final.
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    whatever_panics(|| drop(run.activated));
    let notes = notes(signal);
    // Nobody else has it: that would be who spills.
    if let Some(lines_and_samples) = Arc::into_inner(run.lines_and_samples) {
        whatever_panics(|| lines_and_samples.finish(&notes));
    }
    run.parts.iter().for_each(|part| whatever_panics(|| deliver(&**part, &notes)));
    process_record::reported();
    // Now that its files are there it need not be claimed any more.
    drop(run.name);
}

/// Makes one of several reports. A panic costs that one, and not the others, nor the program's end.
fn whatever_panics(make: impl FnOnce()) {
    if let Err(message) = contain(make) {
        output::say(format_args!(
            "mlprof: the profiler panicked while it made its report: {message}"
        ));
    }
}

/// Writes what was counted and sampled so far, for the case that the process ends in a way that leaves
/// no time for a report; when to do so again. It takes a hundredth of the time at most.
fn spill() -> Option<Duration> {
    let _spilling = SPILLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (parts, lines_and_samples, so_far) = match &*lock() {
        // Steps are written when their cycle is over.
        Some(run) if run.process == this_process() => {
            let parts = run.parts[usize::from(run.has_tensor)..].to_vec();
            (parts, run.lines_and_samples.clone(), run.began.elapsed())
        }
        _ => return None,
    };
    let began = Stopwatch::start();
    for part in &parts {
        // It is said when the report is made in earnest.
        let _ = contain(|| spill_part(&**part));
    }
    let _ = contain(|| {
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
        let name = signals::name(signal);
        let name = name.map_or_else(|| format!("signal {signal}"), str::to_owned);
        format!("the process was ended by {name}: numbers are those until then")
    });
    let forks = Some(FORKS.load(Ordering::Relaxed)).filter(|forks| *forks > 0).map(|forks| {
        format!(
            "the process was forked {forks} times: what forked children did is not in these numbers; children that \
             called something that is measured have reports of their own"
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
            "{} still open when the process ended; they are not counted in the rows",
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
