//! Converts recorded data, in ticks, to the numbers of a report, in seconds.

use std::collections::HashMap;

use super::median::Median;
use super::row::RowSnapshot;
use super::waiting::data_waiting;
use crate::recorder::header::{header, open_actions};
use crate::recorder::{Collected, Part};
use crate::report::StartupDurations;
use crate::report::simple::{
    ActionStatistics, ActionStatisticsParts, DurationStatistics, DurationStatisticsParts,
    MedianLimits, SimpleReport, SimpleReportParts, ThreadStatisticsParts,
};
use crate::{Action, RunContext, Stage};
use mlprof_events::OrderExt;
use mlprof_events::clock::Rate;
use mlprof_events::startup::{PROCESS_STARTUP, PROCESS_STARTUP_BEFORE_MAIN};

/// Rows by name. Two actions with the same name, for example a function and a span, share one row.
type Rows = HashMap<(Option<Stage>, &'static str), RowSnapshot>;

pub(super) fn summarize(
    collected: Collected<HashMap<Action, RowSnapshot>>,
    run: &RunContext,
    seconds_per_scope: f64,
) -> SimpleReport {
    let all = rows(&collected.parts);
    let scopes = all.values().map(|row| row.count).sum();
    let rate = collected.rate;
    let header = header(&collected, run, scopes, seconds_per_scope);
    let mut actions = statistics(all, rate);
    let devices = collected.device_times();
    for row in &mut actions {
        row.device = devices.get(&(row.sub_stage, row.action.clone())).copied();
    }
    if let Some(startup) = header.startup {
        actions.extend(startup_rows(startup));
        actions.order_by(|one, other| other.total_seconds.total_cmp(&one.total_seconds));
    }
    SimpleReportParts {
        header,
        actions,
        data_waiting: data_waiting(&collected),
        device_regions: collected.device_regions(),
        threads: collected
            .by_thread_name()
            .into_iter()
            .map(|group| {
                ThreadStatisticsParts {
                    thread: group.thread.to_owned(),
                    threads: group.threads,
                    actions: statistics(rows(group.parts), rate),
                }
                .build()
            })
            .filter(|thread| !thread.actions.is_empty())
            .collect(),
        open: open_actions(&collected),
        step_series: collected.step_series.clone(),
        findings: Vec::new(),
    }
    .build()
}

fn rows<'parts>(
    parts: impl IntoIterator<Item = &'parts Part<HashMap<Action, RowSnapshot>>>,
) -> Rows {
    let mut rows = Rows::new();
    for part in parts {
        for (action, row) in &part.snapshot {
            rows.entry((part.sub_stage, action.name()))
                .and_modify(|sum| sum.merge(row))
                .or_insert_with(|| row.clone());
        }
    }
    rows
}

/// Returns the rows in seconds, longest total first. Rows with equal totals are in order of first
/// occurrence.
fn statistics(rows: Rows, rate: Rate) -> Vec<ActionStatistics> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.order_by_key(|(_, row)| (std::cmp::Reverse(row.total), row.first_started));
    rows.into_iter()
        .map(|((sub_stage, name), row)| {
            ActionStatisticsParts {
                action: name.to_owned(),
                sub_stage,
                // Two actions with the same name share one row, which is not inside itself.
                inside: row
                    .around
                    .map(Action::name)
                    .filter(|around| *around != name)
                    .map(str::to_owned),
                calls: row.count,
                total_seconds: rate.seconds(row.total),
                self_seconds: rate.seconds(row.own),
                first_seconds: rate.seconds(row.first),
                rest: rest(&row, rate),
                io: None,
                cpu: None,
                device: None,
            }
            .build()
        })
        .collect()
}

/// Returns rows for start-up. They belong to no thread, because no action was started for them.
fn startup_rows(startup: StartupDurations) -> impl Iterator<Item = ActionStatistics> {
    let row = |name: &str, inside: Option<&str>, total_seconds, self_seconds| {
        ActionStatisticsParts {
            action: name.to_owned(),
            sub_stage: None,
            inside: inside.map(str::to_owned),
            calls: 1,
            total_seconds,
            self_seconds,
            first_seconds: total_seconds,
            rest: None,
            io: None,
            cpu: None,
            device: None,
        }
        .build()
    };
    let whole = row(PROCESS_STARTUP, None, startup.total_seconds, startup.after_main_seconds());
    let before_main = startup
        .before_main_seconds
        .map(|part| row(PROCESS_STARTUP_BEFORE_MAIN, Some(PROCESS_STARTUP), part, part));
    [whole].into_iter().chain(before_main)
}

fn rest(row: &RowSnapshot, rate: Rate) -> Option<DurationStatistics> {
    // The calls are counted from the distribution itself, so that the numbers agree while a thread
    // is still recording.
    let calls = row.distribution.total();
    // A report must never fail, regardless of the order in which the numbers were read. `clamp`
    // would panic if the shortest duration were longer than the longest.
    let (min, max) = (row.min.min(row.max), row.max);
    let within = |ticks: u64| ticks.max(min).min(max);
    let sum = row.total.saturating_sub(row.first);
    let median = Median::of(&row.distribution, sum.saturating_add(row.recursive), max);
    let p50 = within(median.ticks);
    // Recursive calls are counted, so their time is included as well.
    let mean = sum.saturating_add(row.recursive) as f64 / calls.max(1) as f64;
    (calls > 0).then(|| {
        DurationStatisticsParts {
            min_seconds: rate.seconds(min),
            // The total may include calls that the distribution does not have yet.
            mean_seconds: rate.seconds(within(mean.round() as u64)),
            p50_seconds: rate.seconds(p50),
            p50_limits: median.limits.map(|(low, high)| MedianLimits {
                low_seconds: rate.seconds(within(low).min(p50)),
                high_seconds: rate.seconds(within(high).max(p50)),
            }),
            p95_seconds: rate.seconds(within(row.distribution.quantile(0.95)).max(p50)),
            max_seconds: rate.seconds(max),
        }
        .build()
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::simple::distribution::Distribution;

    /// Uses numbers as a report may read them while a thread is recording its second call.
    #[test]
    fn numbers_that_do_not_agree_make_a_row_and_no_panic() {
        let mut distribution = Distribution::default();
        distribution.add(100);
        let row = RowSnapshot {
            count: 1,
            total: 50,
            own: 50,
            recursive: 0,
            first: 60,
            first_started: 1,
            around: None,
            min: u64::MAX,
            max: 0,
            distribution,
        };
        let rest = rest(&row, Rate::now()).expect("one was counted");
        assert!(rest.min_seconds <= rest.p50_seconds && rest.p95_seconds <= rest.max_seconds);
        assert_eq!(rest.mean_seconds, 0.0);
    }
}
