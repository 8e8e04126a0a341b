//! Several ranks of one run side by side.

use super::Part;
use super::table::{Cell, Column, Merge, Table, Unit};
use super::text;
use crate::Report;
use crate::simple::SimpleReport;
use profiler_events::Stage;

/// More ranks than these are not shown beside each other.
const RANKS: usize = 16;

/// Simple reports of one stage and of different ranks, where there are several.
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

/// A row per action, a column per rank, and how far the slowest is behind the fastest.
pub(super) fn write(html: &mut String, ranks: &[&SimpleReport], part: &Part) {
    const TITLES: [&str; RANKS] = [
        "Rank 0", "Rank 1", "Rank 2", "Rank 3", "Rank 4", "Rank 5", "Rank 6", "Rank 7", "Rank 8",
        "Rank 9", "Rank 10", "Rank 11", "Rank 12", "Rank 13", "Rank 14", "Rank 15",
    ];
    let shown: Vec<_> =
        ranks.iter().filter(|report| (report.header.rank as usize) < RANKS).collect();
    let mut columns = vec![Column::new("Action", Unit::Text, "What ran").merge(Merge::Key)];
    for report in &shown {
        let title = TITLES[report.header.rank as usize];
        columns.push(Column::new(title, Unit::Seconds, "Total of this rank").bar());
    }
    columns.push(Column::new("Slowest − fastest", Unit::Seconds, "Between the ranks").bar());
    columns.push(Column::new("Slowest rank", Unit::Text, "Which rank took the longest"));
    let mut table = Table::new(columns);
    let mut labels: Vec<String> = Vec::new();
    for row in shown.iter().flat_map(|report| &report.actions) {
        let label = row.label();
        if !labels.contains(&label) && labels.len() < part.limits.rows {
            labels.push(label);
        }
    }
    for label in labels {
        let total = |report: &&&SimpleReport| {
            report.actions.iter().find(|row| row.label() == label).map(|row| row.total_seconds)
        };
        let totals: Vec<Option<f64>> = shown.iter().map(total).collect();
        let known = || totals.iter().flatten().copied();
        let least = known().fold(f64::INFINITY, f64::min);
        let most = known().fold(0.0, f64::max);
        let slowest = totals.iter().position(|total| *total == Some(most) && most > least);
        let mut cells: Vec<Cell> = vec![text::name(&label, part.limits.name).into()];
        cells.extend(totals.iter().map(|total| Cell::from(*total)));
        cells.push((most - least).max(0.0).into());
        cells.push(slowest.map_or_else(String::new, |it| shown[it].header.rank.to_string()).into());
        table.row(cells);
    }
    let stage = ranks[0].header.stage.map_or_else(String::new, |stage| format!(" of {stage}"));
    table.write(html, &format!("Totals{stage} per rank"));
}
