//! Notes of a report, including missing data.

use super::TensorProfiler;
use super::control::StageRun;
use crate::ActionKind;
use crate::report::internals::{Missing, note_missing};
use crate::report::number::{duration, grouped};
use crate::{Stage, allocation, hook};
use mlprof_events::clock::{self, Rate};
use mlprof_events::{Schedule, ShapeList};
use mlprof_trace::internals::Profile;

/// State of the process apart from the recording. It is collected while no lock is held, because
/// hooks add notes while they hold their own locks.
pub(super) struct Surroundings {
    /// Set if a stage or a step has begun.
    has_begun: bool,
    /// Set if the profiler has been active, so that its interest was queried.
    was_active: bool,
    /// Libraries whose ops are recorded.
    sources: Vec<&'static str>,
    /// Frameworks in use whose ops are not recorded.
    without_ops: Vec<&'static str>,
    has_allocator: bool,
    /// Name of the device platform, if there are devices.
    platform: Option<String>,
}

impl TensorProfiler {
    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings {
            has_begun: self.has_begun(),
            was_active: self.was_active(),
            sources: crate::instrumentation::sources_of_ops(),
            without_ops: hook::frameworks_without_ops(),
            has_allocator: allocation::is_installed(),
            platform: mlprof_events::platform(),
        }
    }

    /// Returns the requested data that is missing in the results of `run`.
    pub(super) fn missing(&self, run: &StageRun, around: &Surroundings) -> Vec<Missing> {
        if !clock::IS_THERE {
            return vec![Missing::Clock];
        }
        if !around.has_begun {
            return vec![Missing::Everything];
        }
        let mut missing: Vec<Missing> = self.missing_steps(run).into_iter().collect();
        if run.profile.totals.events > 0 {
            self.missing_kinds(run, around, &mut missing);
        }
        missing
    }

    /// Returns the steps that should have been recorded but were not.
    fn missing_steps(&self, run: &StageRun) -> Option<Missing> {
        let schedule = self.settings.schedule()?;
        let totals = &run.profile.totals;
        let (had, first_active) = (run.step, schedule.first_active());
        if had == 0 {
            let is_under_way = totals.cycles == 0 && run.recording.is_some();
            return match self.settings.records_without_steps {
                _ if is_under_way && first_active == 0 => None,
                true => Some(Missing::AnyStepOfProgram),
                false => Some(Missing::AnyStep { first_active }),
            };
        }
        let last = run.profile.last_cycle.as_ref();
        let is_under_way = run.recording.is_some() || run.fallback.is_pending();
        if last.is_some_and(|last| last.is_complete) || (last.is_none() && is_under_way) {
            return None;
        }
        let stage = name_of(run);
        if had <= first_active {
            let shown = run.profile.cycles.iter().find(|cycle| cycle.steps > 0);
            return Some(Missing::ActiveSteps {
                stage,
                asked: asked_until(&schedule, 0),
                had,
                first_active,
                shown: shown.map(|cycle| (cycle.first_step, cycle.steps)),
            });
        }
        // Events after the last step do not belong to a cycle.
        let last = last.filter(|last| last.steps > 0)?;
        Some(Missing::RestOfCycle {
            cycle: last.number,
            stage,
            asked: asked_until(&schedule, last.number),
            had,
            recorded: last.steps,
            active: schedule.active,
        })
    }

    /// Adds the kinds of events that hooks should have reported but did not.
    fn missing_kinds(&self, run: &StageRun, around: &Surroundings, missing: &mut Vec<Missing>) {
        let profile = &run.profile;
        let wants_memory = self.settings.profile_memory && !profile.has_memory();
        let wants_ops = !profile.has(ActionKind::Op);
        let frameworks = around.without_ops.iter().filter(|_| wants_ops);
        missing.extend(frameworks.map(|framework| Missing::OpsOf(framework)));
        let of_devices = run.notes.iter().filter(|note| note.starts_with(hook::WITHOUT_OPS_OF));
        let of_devices = of_devices.filter(|_| wants_ops).cloned().map(Missing::OpsOfDevice);
        let of_devices: Vec<Missing> = of_devices.collect();
        let is_explained = !wants_ops || !around.without_ops.is_empty() || !of_devices.is_empty();
        missing.extend(of_devices);
        if !around.was_active && (wants_memory || !is_explained) {
            missing.push(Missing::Activation { ops: !is_explained, memory: wants_memory });
        } else if !is_explained {
            let sources = around.sources.clone();
            missing.push(match sources.is_empty() {
                true => Missing::SourceOfOps { frameworks: mlprof_events::frameworks() },
                false => Missing::Ops { sources },
            });
        }
        if wants_memory && around.was_active {
            let has_allocator = around.has_allocator || !around.sources.is_empty();
            missing.push(Missing::Memory { has_allocator });
        }
        if let Some(platform) = &around.platform
            && around.was_active
            && !profile.has(ActionKind::Kernel)
        {
            missing.push(Missing::Kernels { platform: platform.clone() });
        }
    }

    /// Returns all notes of a report.
    pub(super) fn notes(&self, run: &StageRun, missing: &[Missing]) -> Vec<String> {
        let refused = self.settings.refused.as_ref().map(ToString::to_string);
        let mut notes: Vec<String> =
            refused.into_iter().chain(self.note_on_progress(run)).collect();
        note_missing(missing, &mut notes);
        note_on_losses(&run.profile, &mut notes);
        note_on_devices(&run.profile, &mut notes);
        notes.extend(driver_overhead(&run.profile));
        notes.extend(run.regions.notes("a device region", "device regions"));
        notes.extend(run.unattributed.iter().filter_map(|unattributed| unattributed.note()));
        for note in &run.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }

    /// Returns a note if more results will follow.
    fn note_on_progress(&self, run: &StageRun) -> Option<String> {
        let schedule = self.settings.schedule().filter(|_| run.profile.totals.cycles == 0)?;
        if run.fallback.is_pending() {
            let (first, stage, step) = (schedule.first_active(), name_of(run), run.step);
            return (step > 0).then(|| {
                format!(
                    "the first active step is {first} (counted from 0), and {stage} is at step \
                     {step}: numbers follow at the end of a cycle or of the stage"
                )
            });
        }
        run.recording.as_ref()?;
        Some("the first cycle is still being recorded; its numbers follow when it ends".to_owned())
    }
}

/// Returns the name of a stage in notes.
fn name_of(run: &StageRun) -> &'static str {
    run.stage.map_or("the run", Stage::as_str)
}

/// Returns the number of steps needed to finish the cycle with this index.
fn asked_until(schedule: &Schedule, cycle: u64) -> u64 {
    let length = schedule.wait.saturating_add(schedule.warmup).saturating_add(schedule.active);
    let first = schedule.first_active().saturating_add(schedule.active);
    first.saturating_add(length.saturating_mul(cycle))
}

fn note_on_losses(profile: &Profile, notes: &mut Vec<String>) {
    let totals = &profile.totals;
    let dropped = totals.dropped;
    let kinds = [
        (dropped.events, ("op, action or other scope was", "ops, actions and other scopes were")),
        (dropped.memory, ("allocation or free was", "allocations and frees were")),
        (
            dropped.device,
            (
                "kernel, copy or sample of a device's counters was",
                "kernels, copies and samples of devices' counters were",
            ),
        ),
    ];
    for (count, what) in kinds {
        let rest = "dropped, because max_events was reached or they came too late; the numbers \
                    exclude them";
        note_count(notes, count, what, rest);
    }
    note_count(
        notes,
        totals.unfinished,
        ("scope was", "scopes were"),
        "still open when their cycle ended; they count up to that point",
    );
    note_count(
        notes,
        totals.open_elsewhere,
        ("scope of other threads was", "scopes of other threads were"),
        "still open when their cycle ended; they are not in the numbers",
    );
    if !ShapeList::have_all_details() {
        notes.push(
            "the ops' inputs had too many different numbers, so only the shapes of further inputs \
             were kept"
                .to_owned(),
        );
    }
    if profile.is_full() {
        notes.push(
            "there were too many different shapes or call paths, so further ones were merged; \
             enclosing totals lack their device time and FLOPs"
                .to_owned(),
        );
    }
}

/// Returns a note about the time that CUPTI spent inside the program's own calls.
fn driver_overhead(profile: &Profile) -> Option<String> {
    let kinds = profile.driver_overhead(Rate::now());
    let (longest, count, most) = kinds.first()?;
    let seconds = kinds.iter().fold(0.0, |sum, (_, _, seconds)| sum + seconds);
    Some(format!(
        "the driver and its profiling interface took {} of host time, {} of it for {} ({} calls): \
         enclosing actions took longer",
        duration(seconds),
        duration(*most),
        longest.name(),
        grouped(*count)
    ))
}

fn note_on_devices(profile: &Profile, notes: &mut Vec<String>) {
    let totals = &profile.totals;
    note_count(
        notes,
        totals.timed_by_host,
        ("kernel was", "kernels were"),
        "timed by the host's clock around a wait for the device: their times are upper \
         bounds",
    );
    note_count(
        notes,
        totals.not_timed,
        ("kernel was", "kernels were"),
        "not timed: only their launches are known",
    );
    note_count(
        notes,
        totals.unattributed,
        ("kernel has", "kernels have"),
        "device time but no known op or action that caused them",
    );
    note_count(
        notes,
        totals.told_twice,
        ("kernel of CUPTI is", "kernels of CUPTI are"),
        "left out: the framework also reports them with different counts; the table shows the \
         framework's kernels",
    );
}

/// Adds a note about `count` items.
fn note_count(notes: &mut Vec<String>, count: u64, (one, many): (&str, &str), what: &str) {
    match count {
        0 => {}
        1 => notes.push(format!("1 {one} {what}")),
        count => notes.push(format!("{} {many} {what}", grouped(count))),
    }
}
