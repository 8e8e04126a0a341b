//! Table cells, and the colours of thread activities.

use mlprof_report::internals::sections::{COLOURS, Content};
use mlprof_report::internals::shown;
use mlprof_report::internals::table::{Cell, Table};

use crate::answers::Activity;

/// Legend of the activity colours, by colour number.
pub(super) const ACTIVITIES: [&str; COLOURS] = [
    "waiting for data",
    "ops",
    "outside of ops",
    "Python",
    "nothing recorded",
    "calls of the device's library, overhead, other",
    "waiting for the device, or nothing recorded while it works",
];

/// Returns the colour number of an activity.
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

/// Returns the label of an action.
pub(super) fn action(action: Option<&String>) -> String {
    action.map_or_else(|| "(in no action)".to_owned(), |action| shown(action))
}

/// Returns the cell of a time in nanoseconds.
pub(super) fn ns(nanoseconds: i64) -> Cell {
    Cell::Number(Some(nanoseconds as f64 / 1e9))
}

/// Returns the cell of a part's share, from 0 to 1. It is empty if the whole is zero.
pub(super) fn share_of(part: i64, whole: i64) -> Cell {
    Cell::Number((whole > 0).then(|| part as f64 / whole as f64))
}

/// Returns the cell of a part given in nanoseconds. Text output shows its share of the whole.
pub(super) fn part_of(part: i64, whole: i64) -> Cell {
    Cell::Part(part as f64 / 1e9, whole as f64 / 1e9)
}

/// Returns a bar of the non-empty parts.
pub(super) fn bar(parts: impl IntoIterator<Item = (usize, i64)>) -> Cell {
    let parts = parts.into_iter().filter(|(_, nanoseconds)| *nanoseconds > 0);
    Cell::Bar(parts.map(|(colour, nanoseconds)| (colour, nanoseconds as f64 / 1e9)).collect())
}

/// Adds a heading and a table if the table has rows.
pub(super) fn add_below(content: &mut Vec<Content>, anchor: &str, title: &str, table: Table) {
    if !table.is_empty() {
        super::heading(content, anchor, title);
        content.push(Content::Table(table));
    }
}
