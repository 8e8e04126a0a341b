//! Report of the Tensor profiler: values, text and notes.

use std::sync::OnceLock;

use super::control::StageRun;
use super::{GroupBy, TensorProfiler, writer};
use crate::hook::OpStart;
use crate::recorder::regions;
use crate::report::internals::Missing;
use crate::report::tensor::page as tensor_page;
use crate::report::tensor::{KeyAverages, TensorReport, TensorReportParts, finest_rows};
use crate::report::{OverheadParts, ReportHeaderParts, SCHEMA_VERSION, Units};
use crate::{Action, RunContext};
use mlprof_events::clock::{self, Clock, Rate, Stopwatch};
use mlprof_events::forking::made_once;

impl TensorProfiler {
    /// Returns the results of all finished cycles, of the innermost running stage or of the one
    /// that ended last.
    pub fn snapshot(&self) -> TensorReport {
        self.snapshot_and_missing().0
    }

    /// Returns the results, and the requested data that is missing in them.
    pub(super) fn snapshot_and_missing(&self) -> (TensorReport, Vec<Missing>) {
        // This runs outside the lock, because it records into a recording of its own.
        let seconds_per_scope = seconds_per_scope();
        let around = self.surroundings();
        let control = self.control();
        let empty = StageRun::new(None, RunContext::default(), &self.settings);
        let run = control.reported().unwrap_or(&empty);
        let settings = &self.settings;
        let (profile, rate) = (&run.profile, Rate::now());
        let mut key_averages = profile.key_averages(&settings.report.group_by, rate);
        key_averages.device_name = settings.report.device_name();
        let finest = settings.finest().map(|finest| profile.key_averages(&finest, rate));
        let ended = profile.ended();
        let totals = &profile.totals;
        let missing = self.missing(run, &around);
        let mut notes = self.notes(run, &missing);
        notes.extend(clock::notes(profile.started, ended));
        let report = TensorReportParts {
            header: ReportHeaderParts {
                schema_version: SCHEMA_VERSION,
                units: Units::default(),
                stage: run.stage,
                rank: run.run.rank,
                world_size: run.run.world_size,
                started_at: rate.wall_time(profile.started),
                wall_seconds: rate.seconds_between(profile.started, ended),
                build: crate::build_settings::of_program(),
                program: mlprof_events::program_name(),
                machine: crate::machine::of_process(),
                frameworks: mlprof_events::frameworks(),
                startup: None,
                overhead: OverheadParts { scopes: totals.events, seconds_per_scope }.build(),
                settings: settings.in_words(),
                notes,
            }
            .build(),
            schedule: settings.schedule(),
            steps: run.step,
            recorded_steps: totals.steps,
            recorded_seconds: Some(totals.seconds),
            tracked_ops: totals.tracked_ops,
            cycle_count: totals.cycles,
            cycles: profile.cycles.clone(),
            key_averages,
            finest_rows: finest.map_or_else(Vec::new, |averages| finest_rows(&averages)),
            threads: profile.threads(rate),
            modules: profile.modules(rate),
            tuning: profile.tuning(rate),
            device_regions: regions::statistics([(None, &run.regions)]),
            device_counters: profile.device_counters(rate),
            device_idle: profile.device_idle(),
            memory_over_time: profile.memory_over_time.clone(),
            dropped: totals.dropped,
            files: run.files.iter().map(|path| path.display().to_string()).collect(),
            step_series: profile.step_series(run.stage, rate),
            findings: Vec::new(),
        }
        .build();
        (report, missing)
    }

    /// Returns a table of all finished cycles of the stage, grouped by `group_by`.
    ///
    /// ```
    /// use mlprof_core::report::tensor::TableOptions;
    /// use mlprof_core::tensor::{GroupBy, Schedule};
    /// use mlprof_core::{Profiler, ProfilerExt, TensorProfiler};
    ///
    /// let every_step = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    /// let profiler = TensorProfiler::new().schedule(every_step);
    /// for _batch in 0..3 {
    ///     let _scope = profiler.profile("training_step");
    ///     drop(_scope);
    ///     profiler.step();
    /// }
    /// let averages = profiler.key_averages(&GroupBy::name().phase());
    /// let row = averages.rows.iter().find(|row| row.name == "training_step");
    /// assert_eq!(row.map(|row| row.calls), Some(3));
    /// println!("{}", averages.table(&TableOptions::default()));
    /// # Ok::<(), mlprof_core::Error>(())
    /// ```
    pub fn key_averages(&self, group_by: &GroupBy) -> KeyAverages {
        let control = self.control();
        let run = control.reported();
        let averages = run.map(|run| run.profile.key_averages(group_by, Rate::now()));
        let mut averages = averages.unwrap_or_default();
        averages.device_name = self.settings.report.device_name();
        averages
    }

    /// Formats the report as text.
    pub(super) fn paint_report(&self, report: &TensorReport) -> String {
        let has_device_time = report.key_averages.has_device_time();
        tensor_page::paint(report, &self.settings.report.table_options(has_device_time))
    }
}

/// Measures the cost of recording one scope, in seconds. The result is the minimum of a few short
/// rounds. The first call takes about 0.2 ms.
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
            let started = Stopwatch::start();
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
