//! Common input of the rules, extracted from the reports of all profilers.

use mlprof_events::names::{RUN_TRAINING_BATCH, waits_for_other_ranks};
use mlprof_events::{ActionKind, Stage};

use super::framework::Framework;
use crate::Report;
use crate::finding::{Cost, Place};
use crate::simple::{ActionStatistics, CpuStatistics, DataWaiting, DurationStatistics};
use crate::tensor::KeyAverage;
use crate::training_steps::training_steps;

/// A report and the values that most rules need from it.
pub(super) struct Facts<'report> {
    /// The report itself.
    pub(super) report: &'report Report,
    /// Time that the report covers, in seconds. This is the stage, or the recorded cycles. 0 if it
    /// is unknown.
    pub(super) seconds: f64,
    /// `true` if `seconds` is known.
    pub(super) knows_its_seconds: bool,
    /// Number of training steps that the report covers, if known.
    pub(super) steps: Option<u64>,
    /// Actions, as started by training loops and users.
    pub(super) actions: Vec<ActionFacts<'report>>,
    /// Framework that determines the wording of remedies.
    pub(super) framework: Framework,
}

/// The calls of one action.
#[derive(Clone, Copy)]
pub(super) struct ActionFacts<'report> {
    pub(super) name: &'report str,
    pub(super) calls: u64,
    pub(super) total_seconds: f64,
    /// Duration of the first call in seconds, if known.
    pub(super) first_seconds: Option<f64>,
    /// Duration statistics of all calls except the first one, if known.
    pub(super) rest: Option<DurationStatistics>,
    /// CPU time, if it was measured.
    pub(super) cpu: Option<CpuStatistics>,
}

impl ActionFacts<'_> {
    /// Returns the hook's name after the type: `on_train_batch_end` of
    /// `[Callback]Logger.on_train_batch_end`.
    pub(super) fn hook(&self) -> &str {
        self.name.rsplit_once('.').map_or(self.name, |(_, hook)| hook)
    }

    /// Returns `true` if the action waits for the other processes of a training, according to its
    /// name. An example is `all_reduce_gradients`.
    pub(super) fn waits_for_others(&self) -> bool {
        waits_for_other_ranks(self.name)
    }

    /// Returns the type before the hook's name, such as `[Callback]Logger`.
    pub(super) fn owner(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(owner, _)| owner)
    }
}

impl<'report> Facts<'report> {
    pub(super) fn of(report: &'report Report) -> Self {
        let actions = actions(report);
        let ops = ops(report).iter().filter(|row| row.kind == ActionKind::Op);
        let remembered = match report {
            Report::Memory(report) => &report.actions[..],
            _ => &[],
        };
        let names = actions.iter().map(|action| action.name);
        let framework = Framework::of(
            &report.header().frameworks,
            names.chain(remembered.iter().map(|row| row.action.as_str())),
            ops.map(|row| row.name.as_str()),
        );
        Self {
            report,
            seconds: seconds(report).unwrap_or(0.0),
            knows_its_seconds: seconds(report).is_some(),
            steps: training_steps(report),
            actions,
            framework,
        }
    }

    /// Returns the action with this name.
    pub(super) fn action(&self, name: &str) -> Option<ActionFacts<'report>> {
        self.actions.iter().find(|action| action.name == name).copied()
    }

    /// Returns all training batches and their CPU time.
    ///
    /// # Errors
    ///
    /// Returns a message if they are unknown.
    pub(super) fn training_batches(
        &self,
    ) -> Result<(ActionFacts<'report>, CpuStatistics), &'static str> {
        let batch = self.action(RUN_TRAINING_BATCH);
        batch.and_then(|batch| Some((batch, batch.cpu?))).ok_or(
            "the report has no CPU time of run_training_batch: turn on \
             `SimpleProfiler::measure_cpu`",
        )
    }

    /// Returns the number of cores that the program may use.
    ///
    /// # Errors
    ///
    /// Returns a message if it is unknown.
    pub(super) fn cores(&self) -> Result<u64, &'static str> {
        let machine = self.report.header().machine.as_ref();
        let cores = machine.and_then(|machine| machine.cores);
        cores.ok_or("the report does not contain the number of cores that the program may use")
    }

    /// Returns the time that training waited for data, if it is a Simple report with this value.
    pub(super) fn data_waiting(&self) -> Option<DataWaiting> {
        match self.report {
            Report::Simple(report) => report.data_waiting,
            _ => None,
        }
    }

    /// Returns the rows of the op table, or an empty slice if the report has none.
    pub(super) fn ops(&self) -> &'report [KeyAverage] {
        ops(self.report)
    }

    /// Returns the cost for a possible saving of `seconds`, limited to the report's time.
    pub(super) fn cost(&self, seconds: f64) -> Cost {
        let seconds = seconds.clamp(0.0, self.seconds);
        Cost {
            seconds_per_step: self.steps.map(|steps| seconds / steps as f64),
            seconds,
            share: self.share(seconds),
            bytes: None,
            is_estimated: false,
            is_of_learning: false,
        }
    }

    /// Returns an estimated cost, based on savings in other programs. It is used if the report
    /// gives no bound.
    pub(super) fn estimated_cost(&self, seconds: f64) -> Cost {
        Cost { is_estimated: true, ..self.cost(seconds) }
    }

    /// Returns the cost of a finding about invalid numbers.
    pub(super) fn cost_of_learning() -> Cost {
        Cost { is_of_learning: true, ..Cost::default() }
    }

    /// Returns `seconds` as a share of the report's time.
    pub(super) fn share(&self, seconds: f64) -> f64 {
        if self.seconds > 0.0 { seconds / self.seconds } else { 0.0 }
    }
}

/// Returns the location of an op row, with its module if known.
pub(super) fn place_of_op(row: &KeyAverage) -> Place {
    Place { module: row.module.clone(), ..Place::op(&*row.name) }
}

/// Returns the time that a report covers in seconds, or `None` if it is unknown.
fn seconds(report: &Report) -> Option<f64> {
    match report {
        Report::Tensor(report) => report.recorded_seconds.or_else(|| {
            // The report lists only the first cycles, so their sum is valid only if all cycles are
            // listed.
            let are_all_listed = report.cycles.len() as u64 == report.cycle_count;
            are_all_listed.then(|| report.cycles.iter().map(|cycle| cycle.wall_seconds).sum())
        }),
        report => Some(report.header().wall_seconds),
    }
}

/// Returns the actions of the reported stage. Rows of a nested stage, such as the sanity check, are
/// not training and are left out.
fn actions(report: &Report) -> Vec<ActionFacts<'_>> {
    let is_own = |sub_stage: Option<Stage>| sub_stage.is_none();
    match report {
        Report::Simple(report) => {
            let own = report.actions.iter().filter(|row| is_own(row.sub_stage));
            own.map(of_simple).collect()
        }
        Report::Advanced(report) => {
            let own = report.actions.iter().filter(|profile| is_own(profile.sub_stage));
            own.map(|profile| plain(&profile.action, profile.calls, profile.total_seconds))
                .collect()
        }
        Report::Tensor(report) => of_tensor(&report.key_averages.rows),
        Report::Memory(_) | Report::Lines(_) | Report::Samples(_) | Report::Numerics(_) => {
            Vec::new()
        }
    }
}

fn of_simple(row: &ActionStatistics) -> ActionFacts<'_> {
    ActionFacts {
        name: &row.action,
        calls: row.calls,
        total_seconds: row.total_seconds,
        first_seconds: Some(row.first_seconds),
        rest: row.rest,
        cpu: row.cpu,
    }
}

fn plain(name: &str, calls: u64, total_seconds: f64) -> ActionFacts<'_> {
    ActionFacts { name, calls, total_seconds, first_seconds: None, rest: None, cpu: None }
}

/// Merges rows with the same name, which differ only in their grouping, into one action.
fn of_tensor(rows: &[KeyAverage]) -> Vec<ActionFacts<'_>> {
    let mut actions: Vec<ActionFacts<'_>> = Vec::new();
    for row in rows.iter().filter(|row| row.kind == ActionKind::Action) {
        match actions.iter_mut().find(|action| action.name == row.name) {
            Some(action) => {
                action.calls += row.calls;
                action.total_seconds += row.cpu_seconds;
            }
            None => actions.push(plain(&row.name, row.calls, row.cpu_seconds)),
        }
    }
    actions
}

/// Returns the rows of the op table, or an empty slice for reports of other profilers.
fn ops(report: &Report) -> &[KeyAverage] {
    match report {
        Report::Tensor(report) => &report.key_averages.rows,
        _ => &[],
    }
}
