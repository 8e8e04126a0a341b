//! Simulated runs with random durations.

use mlprof_core::report::comparison::{SteppedRow, SteppedRun, Subject};
use mlprof_core::report::internals::{SURE, median_shares};
use mlprof_core::report::simple::{
    ActionStatistics, ActionStatisticsParts, DurationStatisticsParts, MedianLimits, SimpleReport,
};
use mlprof_core::report::steps::{StepEntry, StepEntryParts, StepSeries, StepSeriesParts};
use mlprof_core::{Profiler, Report, SimpleProfiler};

use crate::chance::{Chance, Series};

/// Length of a step in seconds, shared equally by all rows.
const STEP: f64 = 0.01;

/// Returns a trace with `rows` ops.
pub(crate) fn trace(
    rows: usize,
    series: Series,
    drift: &dyn Fn(f64) -> f64,
    times: f64,
    chance: &mut Chance,
) -> SteppedRun {
    let part = times * STEP / rows as f64;
    let row = |index| {
        let seconds = series.durations(drift, chance).into_iter().map(|it| part * it).collect();
        SteppedRow { subject: Subject::Ops, name: format!("op {index}"), seconds }
    };
    let mut rows: Vec<_> = (0..rows).map(row).collect();
    // Only ops with at least 1 % of the run are counted, and all of these are.
    let longest = rows[0].seconds.iter().map(|seconds| 50.0 * seconds).collect();
    rows.push(SteppedRow { subject: Subject::Steps, name: "step".to_owned(), seconds: longest });
    SteppedRun {
        stage: None,
        rank: None,
        world_size: 1,
        started_ns: 0,
        wall_seconds: 1.0,
        steps: series.count as u64,
        rows,
    }
}

/// Returns a Simple report with `rows` actions, and with steps in time order.
pub(crate) fn simple(
    rows: usize,
    series: Series,
    drift: &dyn Fn(f64) -> f64,
    times: f64,
    has_steps: bool,
    chance: &mut Chance,
) -> Report {
    let mut report = empty();
    let wall = STEP * series.count as f64;
    report.header.wall_seconds = wall;
    for index in 0..rows {
        let all = series.durations(drift, chance);
        let seconds = all.into_iter().map(|it| 0.02 * times * STEP * it).collect();
        report.actions.push(action(format!("action {index}"), seconds));
    }
    if has_steps {
        let entry = |(number, seconds): (usize, f64)| {
            StepEntryParts {
                number: number as u64,
                count: 1,
                seconds: times * STEP * seconds,
                forward_seconds: times * STEP * seconds,
                ..StepEntry::default().into()
            }
            .build()
        };
        let steps = series.durations(drift, chance).into_iter().enumerate().map(entry).collect();
        report.step_series.push(
            StepSeriesParts {
                stage: report.header.stage,
                steps: series.count as u64,
                entries: steps,
                ..StepSeries::default().into()
            }
            .build(),
        );
    }
    Report::Simple(report)
}

/// Returns the report of a profiler without events.
fn empty() -> SimpleReport {
    match SimpleProfiler::new().report() {
        Some(Report::Simple(report)) => report,
        other => panic!("a Simple report, not {other:?}"),
    }
}

/// Returns the statistics of an action, with an additional first call that comparisons ignore.
fn action(action: String, mut rest: Vec<f64>) -> ActionStatistics {
    let calls = rest.len() as u64;
    let total: f64 = rest.iter().sum();
    rest.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * rest.len() as f64 - 0.5).clamp(0.0, rest.len() as f64 - 1.0);
        let (below, above) = (rest[place.floor() as usize], rest[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    // A profiler uses the same confidence.
    const { assert!(SURE > 2.5, "with a confidence of 99 %") };
    let limits = median_shares(calls)
        .map(|(low, high)| MedianLimits { low_seconds: at(low), high_seconds: at(high) });
    let (first, last) = (at(0.0), at(1.0));
    let statistics = DurationStatisticsParts {
        min_seconds: first,
        mean_seconds: total / calls as f64,
        p50_seconds: at(0.5),
        p50_limits: limits,
        p95_seconds: at(0.95),
        max_seconds: last,
    }
    .build();
    ActionStatisticsParts {
        action,
        sub_stage: None,
        inside: None,
        calls: calls + 1,
        total_seconds: total,
        self_seconds: total,
        first_seconds: last,
        rest: Some(statistics),
        io: None,
        cpu: None,
        device: None,
    }
    .build()
}
