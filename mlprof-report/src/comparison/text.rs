//! Comparison as text.

use std::fmt::Write;

use super::series::TRACE;
use super::{
    ComparedReports, ComparedRow, ComparedTable, Comparison, Measured, Runs, Unit, Verdict,
};
use crate::counted::counted;
use crate::label;
use crate::number::{duration, grouped};
use crate::table::{Cell, Column, Table, Unit as Units, change, count, share, table, words};

/// Default number of rows per table.
const ROWS: usize = 20;

/// Legend below the tables.
const LEGEND: &str = "Slower, faster, more, less: the change exceeds the usual variation; Least is \
                      its lower bound. Same: the change is within the variation.\n";
/// Legend for comparisons of reports.
const OF_REPORTS: &str = "Not known: the reports do not state how much the duration of calls \
                          varies; compare three or more runs of each side.\nChange: of the total \
                          time, so more calls count as slower, if both sides have the same number \
                          of steps.\nShare: part of the run's time, on the side where it is larger.\n";
/// Legend for comparisons of traces.
const OF_TRACES: &str = "Calls: number of steps that have it. Share: of the time of steps, on the \
                         side where it is larger.\n";

/// Selection of the rows that a comparison shows.
#[derive(Clone, Copy)]
pub struct TextOptions<'a> {
    /// Maximum number of rows per table. The rows with the largest changes come first.
    pub limit: usize,
    /// Returns `true` for the names of rows to show. `None` to show all rows.
    pub is_shown: Option<&'a dyn Fn(&str) -> bool>,
}
mlprof_events::debug_as_name!([] TextOptions<'_>);

impl Default for TextOptions<'_> {
    fn default() -> Self {
        Self { limit: ROWS, is_shown: None }
    }
}

impl Comparison {
    /// Returns the tables for a console, with the rows that got worse first.
    pub fn text(&self) -> String {
        self.text_with(&TextOptions::default())
    }

    /// Returns the tables for a console with the given selection of rows. Writing into a string
    /// cannot fail, so the results are ignored.
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
    /// Returns a summary such as `3 runs of 300 steps, 12.5 s, from 2026-01-02 03:04:05 UTC`.
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
    /// Returns the heading above the table: `Actions: the median of calls`.
    pub fn heading(&self) -> String {
        format!("{}: {}", self.subject.title(), self.per)
    }

    /// Returns the table of the rows with names that `is_shown` accepts.
    pub(crate) fn described(&self, is_shown: &dyn Fn(&str) -> bool) -> Table {
        let unit = match self.unit {
            Unit::Seconds => Units::Seconds,
            Unit::Bytes => Units::Bytes,
            Unit::Count => Units::Count,
        };
        let of = |title, about| Column::new(title, unit, about);
        let rounded = |number: f64| match self.unit {
            Unit::Seconds => number,
            Unit::Bytes | Unit::Count => number.max(0.0).round(),
        };
        let rows = self.rows.iter().filter(|row| is_shown(&row.name));
        let table = table!(self.heading(), rows, |row| {
            let word = row.verdict.word(self.unit).to_owned();
            let of_side = |side: Option<Measured>, pick: fn(&Measured) -> Option<f64>| {
                side.as_ref().and_then(pick)
            };
            let value = |side| of_side(side, |side| Some(side.value)).map(rounded);
            let calls = |side| of_side(side, |side| Some(side.calls));
            let low = |side| of_side(side, |side| side.limits.map(|limits| limits.low.max(0.0)));
            let high = |side| of_side(side, |side| side.limits.map(|limits| limits.high));
            words("Name", "Compared quantity") => row.name.as_str(),
            words("Verdict", "Whether the change exceeds the usual variation") =>
                if row.verdict == Verdict::Worse { Cell::Strong(word) } else { Cell::Text(word) },
            of("Before", "Value of a typical call or step") => value(row.before),
            of("After", "Value of a typical call or step") => value(row.after),
            change("Change", "Change, including the number of calls if both sides have the same \
                              number of steps") => row.change,
            change("Least", "Lower bound of the change") => row.least(),
            count("Calls", "").in_text() => row.calls(),
            share("Share", "Share of the run, on the side where it is larger").bar() => row.share,
            count("Calls before", "Number of calls in a run").on_page() => calls(row.before),
            count("Calls after", "Number of calls in a run").on_page() => calls(row.after),
            of("Before, low", "Lower bound before").on_page() => low(row.before),
            of("Before, high", "Upper bound before").on_page() => high(row.before),
            of("After, low", "Lower bound after").on_page() => low(row.after),
            of("After, high", "Upper bound after").on_page() => high(row.after),
        });
        table.rest("… and {} more with smaller changes")
    }

    fn write(&self, text: &mut String, options: &TextOptions<'_>) {
        let table = self.described(options.is_shown.unwrap_or(&|_| true));
        if !table.is_empty() {
            let _ = write!(text, "\n{}\n{}", self.heading(), table.text(options.limit));
        }
    }
}

impl ComparedRow {
    /// Returns the part of the change that is beyond the normal variation, if there is one.
    pub(crate) fn least(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Worse | Verdict::Better => self.sure_change,
            _ => None,
        }
    }

    /// Returns the calls of both sides, or one number if they are equal.
    pub(crate) fn calls(&self) -> String {
        let count = |side: super::Measured| grouped(side.calls.round() as u64);
        match (self.before.map(count), self.after.map(count)) {
            (Some(before), Some(after)) if before != after => format!("{before} → {after}"),
            (before, after) => after.or(before).unwrap_or_default(),
        }
    }
}
