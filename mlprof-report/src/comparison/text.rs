//! A comparison as text.

use std::fmt::Write;

use super::series::TRACE;
use super::words::percent;
use super::{ComparedReports, ComparedRow, ComparedTable, Comparison, Runs, Verdict};
use crate::counted::counted;
use crate::label;
use crate::number::{duration, grouped, share};
use crate::table::Table;

/// Rows of a table unless another number is asked for.
const ROWS: usize = 20;

/// What stands below the tables.
const LEGEND: &str = "\
Slower, faster, more, less: beyond what varies anyway; Least is how much it is then at the least. \
Same: within that.\n";
/// Below those of reports.
const OF_REPORTS: &str = "\
Not known: the reports do not say how calls vary; with three runs or more of each side these show it. \
Change counts\nhow often something was called, where both sides have the same number of steps. Share: of \
the run, where that is more.\n";
/// Below those of traces.
const OF_TRACES: &str = "\
Calls: the number of steps that have it. Share: of the time of steps, where that is more.\n";

/// Which rows of a comparison are shown.
#[derive(Clone, Copy)]
pub struct TextOptions<'a> {
    /// So many of each table, those that changed most first.
    pub limit: usize,
    /// Whether a row of this name is shown at all; `None`: every one.
    pub is_shown: Option<&'a dyn Fn(&str) -> bool>,
}

impl Default for TextOptions<'_> {
    fn default() -> Self {
        Self { limit: ROWS, is_shown: None }
    }
}

impl Comparison {
    /// Tables for a console: what got worse first.
    pub fn text(&self) -> String {
        self.text_with(&TextOptions::default())
    }

    /// The same of other rows. Writing into a string cannot fail, here and below.
    pub fn text_with(&self, options: &TextOptions<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if !text.is_empty() {
                text.push('\n');
            }
            part.write(&mut text, options);
        }
        let is_of_traces = self.parts.iter().all(|part| part.profiler == TRACE);
        let rest = if is_of_traces { OF_TRACES } else { OF_REPORTS };
        let _ = write!(text, "\n{LEGEND}{rest}{}", label::notes(&self.notes));
        text
    }
}

impl ComparedReports {
    fn write(&self, text: &mut String, options: &TextOptions<'_>) {
        let _ = writeln!(text, "Before and after: {}", self.title());
        let _ = writeln!(text, "Before: {}. After: {}.", self.before.text(), self.after.text());
        text.push_str(&label::notes(&self.notes));
        for table in &self.tables {
            table.write(text, options);
        }
    }
}

impl Runs {
    /// `3 runs of 300 steps, 12.5 s, from 2026-01-02 03:04:05 UTC`.
    pub(crate) fn text(&self) -> String {
        let steps = self
            .steps
            .map_or_else(String::new, |steps| format!(" of {}", counted(steps, "step", "steps")));
        let runs = if self.runs == 1 { "run" } else { "runs" };
        let wall = duration(self.wall_seconds);
        let started = self.started_at.date_and_time();
        format!("{} {runs}{steps}, {wall}, {started} UTC", self.runs)
    }
}

impl ComparedTable {
    /// What stands above it: `Actions: the median of calls`.
    pub fn heading(&self) -> String {
        format!("{}: {}", self.subject.title(), self.per)
    }

    fn write(&self, text: &mut String, options: &TextOptions<'_>) {
        let is_shown =
            |row: &&ComparedRow| options.is_shown.is_none_or(|is_shown| is_shown(&row.name));
        let rows: Vec<_> = self.rows.iter().filter(is_shown).collect();
        if rows.is_empty() {
            return;
        }
        let mut table =
            Table::new(["Before", "After", "Change", "Least", "Calls", "Share", "Verdict", "Name"]);
        for row in rows.iter().take(options.limit) {
            let value = |side: Option<super::Measured>| match side {
                Some(side) => self.unit.write(side.value),
                None => "-".to_owned(),
            };
            table.row([
                value(row.before),
                value(row.after),
                row.change.map_or_else(|| "-".to_owned(), percent),
                row.least().map_or_else(|| "-".to_owned(), percent),
                row.calls(),
                share(row.share, 1.0),
                row.verdict.word(self.unit).to_owned(),
                label::shown(&row.name),
            ]);
        }
        let _ = write!(text, "\n{}\n{}", self.heading(), table.paint());
        let left_out = rows.len().saturating_sub(options.limit);
        if left_out > 0 {
            let _ = writeln!(text, "… and {} more, which changed less", grouped(left_out as u64));
        }
    }
}

impl ComparedRow {
    /// The change that is beyond what varies anyway, where there is one.
    pub(crate) fn least(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Worse | Verdict::Better => self.sure_change,
            _ => None,
        }
    }

    /// How often on both sides: once if that is the same.
    pub(crate) fn calls(&self) -> String {
        let count = |side: super::Measured| grouped(side.calls.round() as u64);
        match (self.before.map(count), self.after.map(count)) {
            (Some(before), Some(after)) if before != after => format!("{before} → {after}"),
            (before, after) => after.or(before).unwrap_or_default(),
        }
    }
}
