//! Pairing of the reports to compare, and notes on differences between them other than times.

use crate::Error;
use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::rows::Rows;
use super::runs::{Key, Run};
use super::spread::{Sample, quantile};
use super::verdict::{Judged, PendingRow};
use super::{ComparedReports, ComparedRow, ComparedTable, Comparison, Runs, Subject};
use crate::Report;
use crate::number::grouped;
use mlprof_events::Stage;

/// Compares the reports before a change with those after it. Several reports with the same kind,
/// stage and rank on one side are treated as several runs.
///
/// # Errors
///
/// Returns an error in these cases:
///
/// - The two sides have no kind of report in common. The error lists the reports of each side.
/// - The common reports contain only sampling estimates.
/// - No row of the program is on both sides.
pub fn compare(before: &[Report], after: &[Report]) -> Result<Comparison, Error> {
    compare_runs_of(before, after)
}

/// Compares runs from any source, such as reports or traces.
pub(super) fn compare_runs_of<R: Run>(before: &[R], after: &[R]) -> Result<Comparison, Error> {
    let (before, after) = (groups(before), groups(after));
    let mut comparison = Comparison { parts: Vec::new(), notes: Vec::new() };
    let (mut has_samples, mut has_rows) = (false, false);
    let (mut pending, mut judged) = (Vec::new(), Judged::default());
    for (key, runs) in &after {
        let Some((_, earlier)) = before.iter().find(|(other, _)| other == key) else { continue };
        if runs[0].is_estimate() {
            has_samples = true;
            continue;
        }
        let part = compare_runs(*key, earlier, runs);
        has_rows |= part.has_common_rows;
        part.rows.iter().flatten().for_each(|row| judged.count(row));
        pending.push(part);
    }
    comparison.parts.extend(pending.into_iter().map(|part| part.judge(judged)));
    if comparison.parts.is_empty() {
        return Err(match has_samples {
            true => Error::Samples,
            false => Error::NothingInCommon { before: listed(&before), after: listed(&after) },
        });
    }
    if !has_rows {
        return Err(Error::OtherProgram);
    }
    if has_samples {
        comparison.notes.push("Reports of samples are estimates and are not compared.".to_owned());
    }
    for (groups, others, side) in [(&before, &after, "before"), (&after, &before, "after")] {
        let is_alone = |(key, _): &&Group<'_, R>| others.iter().all(|(other, _)| other != key);
        let alone: Vec<_> = groups.iter().filter(is_alone).map(|(key, _)| key.title()).collect();
        if !alone.is_empty() {
            comparison.notes.push(format!("Only {side} has {}.", alone.join("; ")));
        }
    }
    let fewest = |part: &ComparedReports| part.before.runs.min(part.after.runs);
    if comparison.parts.iter().map(fewest).min() == Some(1) {
        comparison.notes.push(
            "One run of a side does not show the variation between runs, especially on a shared \
             machine; use three or more runs of each side."
                .to_owned(),
        );
    }
    Ok(comparison)
}

impl Key {
    fn title(&self) -> String {
        title(self.profiler, self.stage, self.rank)
    }
}

/// Returns a title such as `Simple, fit, rank 1`.
pub(super) fn title(profiler: &str, stage: Option<Stage>, rank: Option<u32>) -> String {
    let stage = stage.map_or_else(String::new, |stage| format!(", {stage}"));
    let rank = rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
    format!("{profiler}{stage}{rank}")
}

impl ComparedReports {
    /// Returns the kind of profiler, the stage and the rank, such as `Simple, fit`.
    pub fn title(&self) -> String {
        title(self.profiler, self.stage, self.rank)
    }
}

type Group<'runs, R> = (Key, Vec<&'runs R>);

fn groups<R: Run>(runs: &[R]) -> Vec<Group<'_, R>> {
    let mut groups: Vec<Group<'_, R>> = Vec::new();
    for run in runs {
        let key = run.key();
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    groups
}

fn listed<R>(groups: &[Group<'_, R>]) -> String {
    let titles: Vec<_> = groups.iter().map(|(key, _)| key.title()).collect();
    if titles.is_empty() { "no report".to_owned() } else { titles.join("; ") }
}

/// Reports with rows that have no verdict yet. The verdicts depend on the total number of rows in
/// all parts.
struct PendingReports {
    /// Reports with empty tables.
    reports: ComparedReports,
    /// Rows of each table.
    rows: Vec<Vec<PendingRow>>,
    /// `true` if both sides share a row other than those of the whole run.
    has_common_rows: bool,
}

impl PendingReports {
    fn judge(self, judged: Judged) -> ComparedReports {
        let mut reports = self.reports;
        for (table, rows) in reports.tables.iter_mut().zip(self.rows) {
            table.rows = rows.into_iter().map(|row| row.judge(judged)).collect();
            table.rows.sort_by(ComparedRow::compare);
        }
        reports
    }
}

fn compare_runs<R: Run>(key: Key, before: &[&R], after: &[&R]) -> PendingReports {
    let is_whole = are_all_equal(before.iter().chain(after).filter_map(|run| run.grouping()));
    let of_side =
        |side: &[&R]| -> Vec<Rows> { side.iter().map(|run| run.rows(is_whole)).collect() };
    let (earlier, later) = (of_side(before), of_side(after));
    let (runs_before, runs_after) = (Runs::of(before), Runs::of(after));
    let does_the_same = runs_before.steps.is_some() && runs_before.steps == runs_after.steps;
    let keys: BTreeSet<&(Subject, String)> =
        earlier.iter().chain(&later).flat_map(|rows| rows.samples.keys()).collect();
    let (mut tables, mut rows) = (Vec::<ComparedTable>::new(), Vec::<Vec<PendingRow>>::new());
    let mut has_common_rows = false;
    for row_key @ (subject, name) in keys {
        let of = |side: &[Rows]| -> Vec<Sample> {
            side.iter().filter_map(|rows| rows.samples.get(row_key).copied()).collect()
        };
        let counts_calls = does_the_same && R::is_of_calls(*subject);
        let (one, other) = (of(&earlier), of(&later));
        // A row of the process exists in every program, so it does not show that the programs are
        // related.
        let is_of_program = *subject != Subject::Run && name != super::memory::PROCESS;
        has_common_rows |= is_of_program && !one.is_empty() && !other.is_empty();
        let row = PendingRow::of(name.clone(), subject.unit(), [&one, &other], counts_calls);
        if tables.last().is_none_or(|table| table.subject != *subject) {
            let (subject, unit, per) = (*subject, subject.unit(), subject.per(key.profiler));
            tables.push(ComparedTable { subject, unit, per, rows: Vec::new() });
            rows.push(Vec::new());
        }
        rows.last_mut().expect("one for each table").push(row);
    }
    let mut notes = differences(before, after, &runs_before, &runs_after);
    if !is_whole {
        notes.push(
            "The rows of both sides are grouped differently, so they are compared by name."
                .to_owned(),
        );
    }
    if !has_common_rows {
        notes.push(
            "No row is on both sides; check that they come from the same program.".to_owned(),
        );
    }
    let Key { profiler, stage, rank } = key;
    let (before, after) = (runs_before, runs_after);
    let reports = ComparedReports { profiler, stage, rank, before, after, notes, tables };
    PendingReports { reports, rows, has_common_rows }
}

impl Runs {
    /// Summarizes the runs of one side. `runs` must not be empty.
    fn of<R: Run>(runs: &[&R]) -> Self {
        let wall: Vec<f64> = runs.iter().map(|run| run.wall_seconds()).collect();
        let each: FxHashSet<Option<u64>> = runs.iter().map(|run| run.steps()).collect();
        Self {
            runs: runs.len(),
            started_at: runs.iter().map(|run| run.started_at()).min().unwrap_or_default(),
            wall_seconds: quantile(&wall, 0.5).unwrap_or(0.0),
            steps: if each.len() == 1 { each.into_iter().next().flatten() } else { None },
        }
    }
}

fn are_all_equal<T: PartialEq>(mut all: impl Iterator<Item = T>) -> bool {
    all.next().is_none_or(|first| all.all(|other| other == first))
}

/// Returns the differences between the sides other than times, as sentences.
fn differences<R: Run>(before: &[&R], after: &[&R], earlier: &Runs, later: &Runs) -> Vec<String> {
    let mut notes = Vec::new();
    if before.iter().any(|run| after.contains(run)) {
        notes.push("The same run is on both sides.".to_owned());
    }
    let count = |steps: Option<u64>| steps.map_or_else(|| "an unknown number".to_owned(), grouped);
    if earlier.steps.is_none() || earlier.steps != later.steps {
        let steps = match (earlier.steps, later.steps) {
            (None, None) => "The number of steps of the runs is unknown".to_owned(),
            (one, other) => format!("Steps: {} before, {} after", count(one), count(other)),
        };
        notes.push(format!("{steps}. {}", R::EACH));
    }
    let settings = |side: &[&R]| {
        let mut settings: Vec<(&str, BTreeSet<String>)> = Vec::new();
        for (what, how) in side.iter().flat_map(|run| run.settings()) {
            match settings.iter_mut().find(|(other, _)| *other == what) {
                Some((_, all)) => drop(all.insert(how)),
                None => settings.push((what, BTreeSet::from([how]))),
            }
        }
        settings
    };
    let (of_before, of_after) = (settings(before), settings(after));
    for (what, one) in of_before {
        let Some((_, other)) = of_after.iter().find(|(other, _)| *other == what) else { continue };
        if one != *other {
            let text = |side: BTreeSet<String>| side.into_iter().collect::<Vec<_>>().join(" or ");
            notes.push(format!("{what}: {} before, {} after.", text(one), text(other.clone())));
        }
    }
    notes
}
