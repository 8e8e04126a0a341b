//! How much of a table is shown.

use super::number::shortest;

/// How many lines of an action's table are shown, as Python's `print_stats` takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LineCountRestriction {
    /// So many lines.
    Lines(usize),
    /// This share of the lines, 0 to 1.
    Share(f64),
}

impl Default for LineCountRestriction {
    /// All of them.
    fn default() -> Self {
        Self::Share(1.0)
    }
}

/// How many of `count` lines are shown, and the restriction as Python writes it.
pub(super) fn restricted(count: usize, restriction: LineCountRestriction) -> (usize, String) {
    match restriction {
        LineCountRestriction::Lines(lines) => (lines.min(count), lines.to_string()),
        LineCountRestriction::Share(share) => {
            let lines = (count as f64 * share.clamp(0.0, 1.0) + 0.5) as usize;
            // Like Python's, a share that makes no sense restricts nothing.
            let shown = if (0.0..1.0).contains(&share) { lines.min(count) } else { count };
            (shown, shortest(share))
        }
    }
}
