//! HTML that compares several ranks of one run.

use std::fmt::Write;

use super::Part;
use super::text;
use crate::Report;
use crate::ranks::{StageTable, slow_in_words, stages_of_ranks, stages_table, stragglers};
use crate::simple::SimpleReport;
use crate::table::{Cell, Table, seconds, words};
use mlprof_events::Stage;

/// Maximum number of ranks shown next to each other.
const RANKS: usize = 16;

/// Returns groups of at least two Simple reports with the same stage and different ranks.
pub(super) fn groups(reports: &[Report]) -> Vec<Vec<&SimpleReport>> {
    let mut groups: Vec<(Option<Stage>, Vec<&SimpleReport>)> = Vec::new();
    for report in reports {
        let Report::Simple(report) = report else { continue };
        let stage = report.header.stage;
        match groups.iter_mut().find(|(of, _)| *of == stage) {
            Some((_, group)) => group.push(report),
            None => groups.push((stage, vec![report])),
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    for group in &mut groups {
        group.sort_by_key(|report| report.header.rank);
        group.dedup_by_key(|report| report.header.rank);
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// Writes the exposed time of each part of the steps, and the slow ranks. Writes no HTML if the
/// time that ranks wait for each other is unknown.
pub(super) fn write_held_up(html: &mut String, ranks: &[&SimpleReport], part: &Part) {
    let series = ranks.iter().map(|report| (report.header.rank, report.step_series.as_slice()));
    let Some(stages) = stages_of_ranks(series).filter(StageTable::has_waits) else { return };
    stages_table(stages.steps.len() as u64, &stages.exposed()).write(html, part.limits);
    let slow = stragglers(&stages);
    if slow.is_empty() {
        html.push_str("<p class=quiet>No rank is slow.</p>\n");
    }
    for slow in slow.iter().take(RANKS) {
        let _ = writeln!(html, "<p>{}</p>", text::escape(&slow_in_words(slow).join(" ")));
    }
}

/// Writes a table with a row per action and a column per rank. Each row also shows the difference
/// between the slowest and the fastest rank.
pub(super) fn write(html: &mut String, ranks: &[&SimpleReport], part: &Part) {
    const TITLES: [&str; RANKS] = [
        "Rank 0", "Rank 1", "Rank 2", "Rank 3", "Rank 4", "Rank 5", "Rank 6", "Rank 7", "Rank 8",
        "Rank 9", "Rank 10", "Rank 11", "Rank 12", "Rank 13", "Rank 14", "Rank 15",
    ];
    let shown: Vec<_> =
        ranks.iter().filter(|report| (report.header.rank as usize) < RANKS).collect();
    let mut columns = vec![words("Action", "Name of the action").key()];
    for report in &shown {
        let title = TITLES[report.header.rank as usize];
        columns.push(seconds(title, "Total of this rank").bar());
    }
    columns.push(
        seconds("Slowest − fastest", "Difference between the slowest and the fastest rank").bar(),
    );
    columns.push(words("Slowest rank", "Number of the slowest rank"));
    let mut table = Table::new(columns);
    // Actions are ordered by the longest time on any rank.
    let mut labels: Vec<(String, f64)> = Vec::new();
    for row in shown.iter().flat_map(|report| &report.actions) {
        let label = row.label();
        match labels.iter_mut().find(|(known, _)| *known == label) {
            Some((_, most)) => *most = most.max(row.total_seconds),
            None => labels.push((label, row.total_seconds)),
        }
    }
    labels.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    labels.truncate(part.limits.rows);
    for (label, _) in labels {
        let total = |report: &&&SimpleReport| {
            report.actions.iter().find(|row| row.label() == label).map(|row| row.total_seconds)
        };
        let totals: Vec<Option<f64>> = shown.iter().map(total).collect();
        let known = || totals.iter().flatten().copied();
        let least = known().fold(f64::INFINITY, f64::min);
        let most = known().fold(0.0, f64::max);
        let slowest = totals.iter().position(|total| *total == Some(most) && most > least);
        let mut cells: Vec<Cell> = vec![label.as_str().into()];
        cells.extend(totals.iter().map(|total| Cell::from(*total)));
        cells.push((most - least).max(0.0).into());
        cells.push(slowest.map_or_else(String::new, |it| shown[it].header.rank.to_string()).into());
        table.row(cells);
    }
    let stage = ranks[0].header.stage.map_or_else(String::new, |stage| format!(" of {stage}"));
    table.caption(format!("Totals{stage} per rank")).write(html, part.limits);
}
