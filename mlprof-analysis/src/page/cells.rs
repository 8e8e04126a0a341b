//! Cells and tables of a page, and the colours of what threads do.

use mlprof_report::internals::sections::{COLOURS, Cell, Column, Content, Table};

use crate::answers::Activity;

/// What the colours of threads' time stand for, by number.
pub(super) const ACTIVITIES: [&str; COLOURS] = [
    "waiting for data",
    "ops",
    "outside of ops",
    "Python",
    "nothing recorded",
    "calls of the device's library, overhead, other",
    "waiting for the device, or nothing recorded while it works",
];

/// Which of them an activity has.
pub(super) fn colour(activity: Activity) -> usize {
    match activity {
        Activity::WaitingForData => 0,
        Activity::Op => 1,
        Activity::Annotation => 2,
        Activity::Python => 3,
        Activity::Nothing => 4,
        Activity::Runtime | Activity::Overhead | Activity::Other => 5,
        Activity::WaitingForDevice | Activity::DeviceWorks => 6,
    }
}

pub(super) fn words(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

pub(super) fn number(number: f64) -> Cell {
    Cell::Number(Some(number))
}

pub(super) fn seconds(nanoseconds: i64) -> Cell {
    number(nanoseconds as f64 / 1e9)
}

/// A part of a whole, 0 to 1; not known of nothing.
pub(super) fn share(part: i64, whole: i64) -> Cell {
    Cell::Number((whole > 0).then(|| part as f64 / whole as f64))
}

/// A bar of parts that are not nothing.
pub(super) fn parts(parts: impl IntoIterator<Item = (usize, i64)>) -> Cell {
    let parts = parts.into_iter().filter(|(_, nanoseconds)| *nanoseconds > 0);
    Cell::Parts(parts.map(|(colour, nanoseconds)| (colour, nanoseconds as f64 / 1e9)).collect())
}

/// A table whose rows come as they are, and of which the first are kept.
pub(super) fn table(
    caption: &str,
    columns: impl Into<Vec<Column>>,
    rows: impl Iterator<Item = Vec<Cell>>,
) -> Table {
    let (caption, columns) = (caption.to_owned(), columns.into());
    Table { caption, columns, rows: rows.collect(), ..Table::default() }
}

/// Adds a table below a heading, if it has rows.
pub(super) fn add_below(content: &mut Vec<Content>, anchor: &str, title: &str, table: Table) {
    if !table.rows.is_empty() {
        super::heading(content, anchor, title);
        content.push(Content::Table(table));
    }
}
