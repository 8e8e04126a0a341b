//! The report of the Tensor profiler: values, text, and what a reader of them must know.

use std::sync::OnceLock;
use std::time::Instant;

use super::control::StageRun;
use super::profile::Profile;
use super::schedule::Schedule;
use super::{GroupBy, TensorProfiler, writer};
use crate::clock::{Clock, Rate};
use crate::forking::made_once;
use crate::hook::OpStart;
use crate::recorder::regions;
use crate::report::number::grouped;
use crate::report::tensor::{KeyAverages, TensorReport};
use crate::report::{Overhead, ReportHeader, SCHEMA_VERSION, Units, tensor_page};
use crate::{Action, RunContext, Stage};

impl TensorProfiler {
    /// The numbers of all cycles of the stage that are over: of the innermost stage that runs, or of
    /// the one that ended last.
    pub fn snapshot(&self) -> TensorReport {
        // Outside of the lock: it records, if only into something of its own.
        let seconds_per_scope = seconds_per_scope();
        let control = self.control();
        let empty = StageRun::new(None, RunContext::default(), &self.settings);
        let run = control.reported().unwrap_or(&empty);
        let settings = &self.settings;
        let (profile, rate) = (&run.profile, Rate::now());
        let mut key_averages = profile.key_averages(&settings.report.group_by);
        key_averages.device_name = settings.report.device_name();
        let elapsed = profile.ended().saturating_sub(profile.started);
        let totals = &profile.totals;
        TensorReport {
            header: ReportHeader {
                schema_version: SCHEMA_VERSION,
                units: Units::default(),
                stage: run.stage,
                rank: run.run.rank,
                world_size: run.run.world_size,
                started_at: rate.wall_time(profile.started),
                wall_seconds: rate.seconds(elapsed),
                startup: None,
                overhead: Overhead { scopes: totals.events, seconds_per_scope },
                notes: notes(run, settings.schedule),
            },
            schedule: settings.schedule,
            steps: run.step,
            recorded_steps: totals.steps,
            cycle_count: totals.cycles,
            cycles: profile.cycles.clone(),
            key_averages,
            modules: profile.modules(),
            tuning: profile.tuning(),
            device_regions: regions::statistics([(None, &run.regions)]),
            device_counters: profile.device_counters(),
            dropped: totals.dropped,
            files: run.files.iter().map(|path| path.display().to_string()).collect(),
        }
    }

    /// The table of all cycles of the stage that are over, told apart as `group_by` says.
    ///
    /// ```
    /// use profiler_core::report::tensor::TableOptions;
    /// use profiler_core::tensor::{GroupBy, Schedule};
    /// use profiler_core::{Profiler, ProfilerExt, TensorProfiler};
    ///
    /// let every_step = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    /// let profiler = TensorProfiler::new().schedule(every_step)?;
    /// for _batch in 0..3 {
    ///     let _scope = profiler.profile("training_step");
    ///     drop(_scope);
    ///     profiler.step();
    /// }
    /// let averages = profiler.key_averages(&GroupBy::name().phase());
    /// let row = averages.rows.iter().find(|row| row.name == "training_step");
    /// assert_eq!(row.map(|row| row.calls), Some(3));
    /// println!("{}", averages.table(&TableOptions::default()));
    /// # Ok::<(), profiler_core::tensor::InvalidSchedule>(())
    /// ```
    pub fn key_averages(&self, group_by: &GroupBy) -> KeyAverages {
        let control = self.control();
        let run = control.reported();
        let averages = run.map(|run| run.profile.key_averages(group_by));
        let device_name = self.settings.report.device_name();
        KeyAverages { device_name, ..averages.unwrap_or_default() }
    }

    /// The text of the report.
    pub(super) fn paint_report(&self) -> String {
        let report = self.snapshot();
        let has_device_time = report.key_averages.has_device_time();
        tensor_page::paint(&report, &self.settings.report.table_options(has_device_time))
    }
}

/// What a reader of the numbers must know.
fn notes(run: &StageRun, schedule: Option<Schedule>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    notes.extend(note_on_steps(run, schedule));
    note_on_losses(&run.profile, &mut notes);
    note_on_devices(&run.profile, &mut notes);
    notes.extend(run.regions.notes());
    notes.extend(run.notes.iter().cloned());
    notes.extend(run.unbound.iter().filter_map(|unbound| unbound.note()));
    notes
}

/// Steps that were to be recorded and were not.
fn note_on_steps(run: &StageRun, schedule: Option<Schedule>) -> Option<String> {
    let schedule = schedule?;
    let stage = run.stage.map_or("the run", Stage::as_str);
    let (steps, first) = (run.step, schedule.first_active());
    let count = |count: u64| match count {
        1 => "1 step".to_owned(),
        count => format!("{} steps", grouped(count)),
    };
    let totals = &run.profile.totals;
    if run.recording.is_some() && totals.cycles == 0 {
        return Some(
            "the first cycle is still being recorded; its numbers come when it is over".into(),
        );
    }
    if totals.cycles == 0 && steps == 0 {
        return Some(format!(
            "step() was never called, and the first active step is {first} (counted from 0): call \
             it after every batch, or record without a schedule"
        ));
    }
    if totals.steps == 0 && steps > 0 {
        return Some(format!(
            "the schedule never came to an active step: {stage} had {} and the first active one is \
             {first} (counted from 0); use smaller skip_first, wait or warmup, or train longer",
            count(steps)
        ));
    }
    if steps == 0 {
        return Some("step() was never called: all that was recorded is one step".into());
    }
    let last = run.profile.last_cycle.as_ref().filter(|last| !last.is_complete)?;
    Some(format!(
        "cycle {} is incomplete: {stage} ended after {}, and {} of the cycle's {} had been recorded",
        last.number,
        count(steps),
        last.steps,
        count(schedule.active)
    ))
}

fn note_on_losses(profile: &Profile, notes: &mut Vec<String>) {
    let totals = &profile.totals;
    let dropped = totals.dropped;
    let kinds = [
        (dropped.events, "ops, actions and other scopes"),
        (dropped.memory, "allocations and frees"),
        (dropped.device, "kernels, copies and samples of devices' counters"),
    ];
    for (count, what) in kinds {
        let rest = "were dropped, because max_events was reached or they came too late; the numbers \
                    are without them";
        note_count(notes, count, &format!("{what} {rest}"));
    }
    note_count(
        notes,
        totals.unfinished,
        "scopes were still open when their cycle ended; they count up to there",
    );
    note_count(
        notes,
        totals.open_elsewhere,
        "scopes of other threads were still open when their cycle ended; they are not in the numbers",
    );
    if profile.is_full() {
        notes.push(
            "there were so many different shapes or call paths that further ones were not told \
             apart; totals of what is around them lack their device time and FLOPs"
                .to_owned(),
        );
    }
}

fn note_on_devices(profile: &Profile, notes: &mut Vec<String>) {
    let totals = &profile.totals;
    note_count(
        notes,
        totals.timed_by_host,
        "kernels were timed by the host's clock around a wait for the device: their times are upper \
         bounds",
    );
    note_count(notes, totals.not_timed, "kernels were not timed: only their launches are known");
    note_count(
        notes,
        totals.unattributed,
        "kernels have device time but no known op or action that caused them",
    );
    note_count(
        notes,
        totals.told_twice,
        "kernels that CUPTI told of are left out: the framework tells of them, too, and the two did \
         not count alike; its own are shown",
    );
}

/// Says how many of something there were, if there were any.
fn note_count(notes: &mut Vec<String>, count: u64, what: &str) {
    if count > 0 {
        notes.push(format!("{} {what}", grouped(count)));
    }
}

/// What recording one scope costs on this machine: the best of a few short rounds, so some 0.2 ms
/// the first time.
fn seconds_per_scope() -> f64 {
    const ROUNDS: usize = 8;
    const SCOPES: u32 = 100;
    static KNOWN: OnceLock<f64> = OnceLock::new();
    *made_once(&KNOWN, || {
        let clock = Clock::new();
        let recording = std::sync::Arc::new(super::Recording::new(
            clock.ticks(),
            u64::from(SCOPES) * ROUNDS as u64 * 2,
            std::sync::Arc::new(super::recording::Memory::new()),
        ));
        let op = OpStart::new(Action::op("mlprof_calibration"));
        let round = || {
            let started = Instant::now();
            for _ in 0..SCOPES {
                let known = || Some(recording.clone());
                writer::start(recording.number, known, &op, &clock);
                writer::stop(recording.number, known, op.action, &clock);
            }
            started.elapsed().as_secs_f64() / f64::from(SCOPES)
        };
        let best = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
        recording.end();
        best
    })
}
