//! Sample reports and assertions for the tests of the rules.

use mlprof_events::{GroupBy, Stage, Tallies};

use super::{Outcome, Rules};
use crate::finding::Finding;
use crate::memory::{MemoryTree, ProcessMemory};
use crate::numerics::{NumericsReport, TensorRow, troubles};
use crate::simple::{ActionStatistics, DurationStatistics, SimpleReport};
use crate::steps::{StepEntry, StepSeries};
use crate::tensor::{CycleSummary, DroppedEvents, KeyAverage, KeyAverages, TensorReport};
use crate::{AdvancedReport, MemoryReport, Overhead, Report, ReportHeader, SCHEMA_VERSION, Units};

pub(crate) fn header(wall_seconds: f64) -> ReportHeader {
    ReportHeader {
        schema_version: SCHEMA_VERSION,
        units: Units::default(),
        stage: Some(Stage::Fit),
        rank: 0,
        world_size: 1,
        started_at: "2026-01-02T03:04:05Z".parse().expect("a date"),
        wall_seconds,
        build: None,
        program: None,
        machine: None,
        frameworks: Vec::new(),
        startup: None,
        overhead: Overhead::default(),
        settings: Vec::new(),
        notes: Vec::new(),
    }
}

/// Builds a row with `calls` calls of equal duration.
pub(crate) fn row(action: &str, calls: u64, total_seconds: f64) -> ActionStatistics {
    let each = total_seconds / calls as f64;
    ActionStatistics {
        action: action.to_owned(),
        sub_stage: None,
        inside: None,
        calls,
        total_seconds,
        self_seconds: total_seconds,
        first_seconds: each,
        rest: Some(DurationStatistics {
            min_seconds: each,
            mean_seconds: each,
            p50_seconds: each,
            p50_limits: None,
            p95_seconds: each,
            max_seconds: each,
        }),
        io: None,
        cpu: None,
        device: None,
    }
}

/// Builds a Simple report of a healthy run with `count` steps of `seconds` each and no other
/// actions.
pub(crate) fn steps(count: u64, seconds: f64) -> SimpleReport {
    let total = count as f64 * seconds;
    SimpleReport {
        header: header(total),
        actions: vec![
            row("run_training_batch", count, total),
            row("[Strategy]SingleDeviceStrategy.training_step", count, 0.3 * total),
            row("[Strategy]SingleDeviceStrategy.backward", count, 0.6 * total),
        ],
        threads: Vec::new(),
        open: Vec::new(),
        data_waiting: None,
        device_regions: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    }
}

/// Builds the report of one of several ranks, with twenty steps of 50 ms. In each step, the rank
/// waits `data_seconds` for its data, and waits for the other ranks for the rest of 40 ms.
pub(crate) fn rank(number: u32, world_size: u32, data_seconds: f64) -> SimpleReport {
    let mut report = steps(20, 0.05);
    report.header.rank = number;
    report.header.world_size = world_size;
    let entry = |number| StepEntry {
        number,
        count: 1,
        seconds: 0.05,
        data_seconds,
        forward_seconds: 0.01,
        collective_seconds: 0.04 - data_seconds,
        ..StepEntry::default()
    };
    let entries = (0..20).map(entry).collect();
    let stage = report.header.stage;
    report.step_series = vec![StepSeries { stage, steps: 20, entries, durations: None }];
    report
}

/// Builds an op row with the given total host time in seconds.
pub(crate) fn op(name: &str, calls: u64, seconds: f64) -> KeyAverage {
    let total = KeyAverages::default().total_average();
    KeyAverage {
        name: name.to_owned(),
        kind: mlprof_events::ActionKind::Op,
        calls,
        cpu_seconds: seconds,
        self_cpu_seconds: seconds,
        first_seconds: seconds / calls as f64,
        ..total
    }
}

/// Builds an action row of the op table.
pub(crate) fn action(name: &str, calls: u64, seconds: f64) -> KeyAverage {
    KeyAverage { kind: mlprof_events::ActionKind::Action, ..op(name, calls, seconds) }
}

/// Builds a kernel row with the given device time in seconds.
pub(crate) fn kernel(name: &str, calls: u64, seconds: f64) -> KeyAverage {
    KeyAverage {
        kind: mlprof_events::ActionKind::Kernel,
        is_on_device: true,
        device_seconds: seconds,
        self_device_seconds: seconds,
        ..op(name, calls, 0.0)
    }
}

/// Builds a Tensor report with 100 recorded steps of 20 ms.
pub(crate) fn recorded(rows: Vec<KeyAverage>) -> TensorReport {
    let cycle = CycleSummary {
        number: 0,
        first_step: 5,
        steps: 100,
        is_complete: true,
        started_at: "2026-01-02T03:04:05Z".parse().expect("a date"),
        wall_seconds: 2.0,
        events: 1000,
    };
    TensorReport {
        header: header(20.0),
        schedule: None,
        steps: 1000,
        recorded_steps: 100,
        recorded_seconds: Some(2.0),
        tracked_ops: 0,
        cycle_count: 1,
        cycles: vec![cycle],
        key_averages: KeyAverages {
            group_by: GroupBy::name(),
            device_name: "CUDA".to_owned(),
            has_memory: false,
            rows,
        },
        finest_rows: Vec::new(),
        threads: Vec::new(),
        modules: Vec::new(),
        tuning: Vec::new(),
        device_regions: Vec::new(),
        device_counters: Vec::new(),
        device_idle: Vec::new(),
        memory_over_time: Vec::new(),
        dropped: DroppedEvents::default(),
        files: Vec::new(),
        step_series: Vec::new(),
        findings: Vec::new(),
    }
}

/// Builds a Memory report of two seconds with these allocations.
pub(crate) fn remembered(total: Tallies) -> MemoryReport {
    MemoryReport {
        header: header(2.0),
        process: ProcessMemory { total, ..ProcessMemory::default() },
        actions: Vec::new(),
        threads: Vec::new(),
        peak: MemoryTree::default(),
        alive: MemoryTree::default(),
        copies: MemoryTree::default(),
        open: Vec::new(),
        findings: Vec::new(),
    }
}

/// Builds a Numerics report of a tenth of a second with these tensors.
pub(crate) fn numbers(tensors: Vec<TensorRow>) -> NumericsReport {
    NumericsReport {
        header: header(0.1),
        steps: 20,
        recorded_steps: 2,
        is_watched: true,
        first_not_finite: None,
        first_op_not_finite: None,
        not_finite: 0,
        rerun: None,
        troubles: troubles(&tensors),
        tensors,
        dropped: 0,
        files: Vec::new(),
        findings: Vec::new(),
    }
}

/// Conversion of the sample reports into [`Report`].
pub(crate) trait IntoReport {
    fn into_report(self) -> Report;
}

impl IntoReport for SimpleReport {
    fn into_report(self) -> Report {
        Report::Simple(self)
    }
}

impl IntoReport for AdvancedReport {
    fn into_report(self) -> Report {
        Report::Advanced(self)
    }
}

impl IntoReport for TensorReport {
    fn into_report(self) -> Report {
        Report::Tensor(self)
    }
}

impl IntoReport for NumericsReport {
    fn into_report(self) -> Report {
        Report::Numerics(self)
    }
}

impl IntoReport for crate::MemoryReport {
    fn into_report(self) -> Report {
        Report::Memory(self)
    }
}

fn outcome(rule: &str, report: impl IntoReport) -> Outcome {
    let explanations = Rules::new().explain(&report.into_report());
    let explanation = explanations.into_iter().find(|explanation| explanation.rule == rule);
    explanation.expect("there is such a rule").outcome
}

/// Returns the finding of the rule. Panics unless it is the only finding of all rules.
pub(crate) fn found(rule: &str, report: impl IntoReport) -> Finding {
    let report = report.into_report();
    let mut findings = Rules::new().apply(&report);
    assert!(findings.len() == 1 && findings[0].rule == rule, "{findings:#?}");
    findings.remove(0)
}

/// Panics unless the rule examined the report and found no problem.
pub(crate) fn healthy(rule: &str, report: impl IntoReport) {
    match outcome(rule, report) {
        Outcome::Healthy(looked_at) => assert!(!looked_at.is_empty(), "it says by which numbers"),
        other => panic!("{other:#?}"),
    }
}

/// Returns the message about the missing input of the rule.
pub(crate) fn missing(rule: &str, report: impl IntoReport) -> String {
    match outcome(rule, report) {
        Outcome::NoInputs(missing) => missing,
        other => panic!("{other:#?}"),
    }
}

/// Panics unless `value` differs from `expected` by at most the fraction `part`.
pub(crate) fn close(value: f64, expected: f64, part: f64) {
    assert!((value - expected).abs() <= part * expected, "{value} is not about {expected}");
}
