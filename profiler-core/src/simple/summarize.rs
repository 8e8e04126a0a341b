//! From what threads recorded, in ticks, to the numbers of a report, in seconds.

use std::collections::HashMap;

use super::SimpleProfiler;
use super::histogram::quantile;
use super::table::RowSnapshot;
use crate::clock::Rate;
use crate::recorder::Collected;
use crate::recorder::header::{header, open_actions};
use crate::recorder::overhead::seconds_per_scope;
use crate::report::simple::{ActionStatistics, DurationStatistics, SimpleReport, ThreadStatistics};
use crate::{Action, RunContext, Stage};

/// Rows by name: two actions of one name (a function and a span, say) are one row.
type Rows = HashMap<(Option<Stage>, &'static str), RowSnapshot>;

pub(super) fn summarize(
    collected: Collected<HashMap<Action, RowSnapshot>>,
    run: &RunContext,
) -> SimpleReport {
    let mut all = Rows::new();
    let mut threads: Vec<(String, u64, Rows)> = Vec::new();
    for part in &collected.parts {
        let mut rows = Rows::new();
        for (action, row) in &part.snapshot {
            add(&mut rows, (part.sub_stage, action.name()), row);
            add(&mut all, (part.sub_stage, action.name()), row);
        }
        // A thread that took part in a stage inside this one comes twice.
        match threads.iter_mut().find(|(thread, ..)| *thread == part.thread) {
            Some((_, count, known)) => {
                *count = (*count).max(part.threads);
                rows.iter().for_each(|(key, row)| add(known, *key, row));
            }
            None => threads.push((part.thread.clone(), part.threads, rows)),
        }
    }
    let scopes = all.values().map(|row| row.count).sum();
    let seconds_per_scope = seconds_per_scope::<SimpleProfiler>(SimpleProfiler::new);
    let rate = collected.rate;
    SimpleReport {
        header: header(&collected, run, scopes, seconds_per_scope),
        actions: statistics(all, rate),
        threads: threads
            .into_iter()
            .filter(|(_, _, rows)| !rows.is_empty())
            .map(|(thread, threads, rows)| ThreadStatistics {
                thread,
                threads,
                actions: statistics(rows, rate),
            })
            .collect(),
        open: open_actions(&collected),
    }
}

fn add(rows: &mut Rows, key: (Option<Stage>, &'static str), row: &RowSnapshot) {
    rows.entry(key).and_modify(|sum| sum.merge(row)).or_insert_with(|| row.clone());
}

/// The rows in seconds, the longest total first; rows of one total in order of first occurrence.
fn statistics(rows: Rows, rate: Rate) -> Vec<ActionStatistics> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| (std::cmp::Reverse(row.total), row.first_started));
    rows.into_iter()
        .map(|((sub_stage, name), row)| ActionStatistics {
            action: name.to_owned(),
            sub_stage,
            calls: row.count,
            total_seconds: rate.seconds(row.total),
            self_seconds: rate.seconds(row.own),
            first_seconds: rate.seconds(row.first),
            rest: rest(&row, rate),
        })
        .collect()
}

fn rest(row: &RowSnapshot, rate: Rate) -> Option<DurationStatistics> {
    // Counted from the distribution itself, so that the numbers agree while a thread still runs.
    let calls: u64 = row.distribution.iter().sum();
    let quantile = |share| quantile(&row.distribution, share).clamp(row.min, row.max);
    (calls > 0).then(|| DurationStatistics {
        min_seconds: rate.seconds(row.min),
        mean_seconds: rate.seconds(row.total.saturating_sub(row.first)) / calls as f64,
        p50_seconds: rate.seconds(quantile(0.5)),
        p95_seconds: rate.seconds(quantile(0.95)),
        max_seconds: rate.seconds(row.max),
    })
}
