//! What rules look at, in one form for the reports of all profilers.

use mlprof_events::names::{RUN_TRAINING_BATCH, waits_for_other_ranks};
use mlprof_events::{ActionKind, Stage};

use super::framework::Framework;
use crate::Report;
use crate::finding::{Cost, Place};
use crate::simple::{ActionStatistics, CpuStatistics, DataWaiting, DurationStatistics};
use crate::tensor::KeyAverage;
use crate::training_steps::training_steps;

/// A report, and what most rules want to know of it.
pub(super) struct Facts<'report> {
    /// The report itself.
    pub(super) report: &'report Report,
    /// So much time it covers, in seconds: the stage, or the recorded cycles.
    pub(super) seconds: f64,
    /// Whether the report says so; else it is 0.
    pub(super) knows_its_seconds: bool,
    /// So many training steps it covers, where it knows of any.
    pub(super) steps: Option<u64>,
    /// Its actions: what training loops and people start.
    pub(super) actions: Vec<ActionFacts<'report>>,
    /// Whose words to use.
    pub(super) framework: Framework,
}

/// The calls of one action.
#[derive(Clone, Copy)]
pub(super) struct ActionFacts<'report> {
    pub(super) name: &'report str,
    pub(super) calls: u64,
    pub(super) total_seconds: f64,
    /// How long the first call took, where that is known.
    pub(super) first_seconds: Option<f64>,
    /// How the others are distributed, where that is known.
    pub(super) rest: Option<DurationStatistics>,
    /// CPU time, where it was measured.
    pub(super) cpu: Option<CpuStatistics>,
}

impl ActionFacts<'_> {
    /// The part behind the type: `on_train_batch_end` of `[Callback]Logger.on_train_batch_end`.
    pub(super) fn hook(&self) -> &str {
        self.name.rsplit_once('.').map_or(self.name, |(_, hook)| hook)
    }

    /// Whether it is there to wait for the other processes of a training: by its name, such as
    /// `all_reduce_gradients`.
    pub(super) fn waits_for_others(&self) -> bool {
        waits_for_other_ranks(self.name)
    }

    /// The part before that, `[Callback]Logger`.
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

    /// The action of that name.
    pub(super) fn action(&self, name: &str) -> Option<ActionFacts<'report>> {
        self.actions.iter().find(|action| action.name == name).copied()
    }

    /// All training batches and the CPU time in them; why that is not known.
    pub(super) fn training_batches(
        &self,
    ) -> Result<(ActionFacts<'report>, CpuStatistics), &'static str> {
        let batch = self.action(RUN_TRAINING_BATCH);
        batch.and_then(|batch| Some((batch, batch.cpu?))).ok_or(
            "the report has no CPU time of run_training_batch (`SimpleProfiler::measure_cpu`)",
        )
    }

    /// How many cores the program may use; why that is not known.
    pub(super) fn cores(&self) -> Result<u64, &'static str> {
        let machine = self.report.header().machine.as_ref();
        let cores = machine.and_then(|machine| machine.cores);
        cores.ok_or("the report does not say how many cores the program may use")
    }

    /// How long training waited for data, where Simple's report says so.
    pub(super) fn data_waiting(&self) -> Option<DataWaiting> {
        match self.report {
            Report::Simple(report) => report.data_waiting,
            _ => None,
        }
    }

    /// The rows of the table of ops, where the report has one.
    pub(super) fn ops(&self) -> &'report [KeyAverage] {
        ops(self.report)
    }

    /// What it costs if so many seconds can be saved, of all that there are.
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

    /// The same where a report does not bound what can be saved: so much it was in other programs.
    pub(super) fn estimated_cost(&self, seconds: f64) -> Cost {
        Cost { is_estimated: true, ..self.cost(seconds) }
    }

    /// What it costs where numbers are wrong.
    pub(super) fn cost_of_learning() -> Cost {
        Cost { is_of_learning: true, ..Cost::default() }
    }

    /// Which part so many seconds are of all that there are.
    pub(super) fn share(&self, seconds: f64) -> f64 {
        if self.seconds > 0.0 { seconds / self.seconds } else { 0.0 }
    }
}

/// The op of a row, and the module that it is of, if the row says so.
pub(super) fn place_of_op(row: &KeyAverage) -> Place {
    Place { module: row.module.clone(), ..Place::op(&*row.name) }
}

/// How much time a report covers; `None` where it does not say.
fn seconds(report: &Report) -> Option<f64> {
    match report {
        Report::Tensor(report) => report.recorded_seconds.or_else(|| {
            // Only the first cycles are listed.
            let are_all_listed = report.cycles.len() as u64 == report.cycle_count;
            are_all_listed.then(|| report.cycles.iter().map(|cycle| cycle.wall_seconds).sum())
        }),
        report => Some(report.header().wall_seconds),
    }
}

/// Rows of a stage inside the reported one, such as the sanity check, are not training.
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

/// Rows of one name, told apart by what is around them, are one action.
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

/// The rows of a table of ops; none in the reports of other profilers.
fn ops(report: &Report) -> &[KeyAverage] {
    match report {
        Report::Tensor(report) => &report.key_averages.rows,
        _ => &[],
    }
}
