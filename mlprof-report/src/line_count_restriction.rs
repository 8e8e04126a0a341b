//! Limit on the number of lines of a table.

use super::number::shortest;

/// Limit on the lines shown of an action's table, like the argument of Python's `print_stats`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LineCountRestriction {
    /// Shows at most this number of lines.
    Lines(usize),
    /// Shows this share of the lines, 0 to 1.
    Share(f64),
}

impl Default for LineCountRestriction {
    /// Returns a restriction that shows all lines.
    fn default() -> Self {
        Self::Share(1.0)
    }
}

/// Returns the number of lines to show of `count`, and the restriction in Python's notation.
pub(super) fn restricted(count: usize, restriction: LineCountRestriction) -> (usize, String) {
    match restriction {
        LineCountRestriction::Lines(lines) => (lines.min(count), lines.to_string()),
        LineCountRestriction::Share(share) => {
            let lines = (count as f64 * share.clamp(0.0, 1.0) + 0.5) as usize;
            // As in Python, a share outside 0 to 1 does not restrict the table.
            let shown = if (0.0..1.0).contains(&share) { lines.min(count) } else { count };
            (shown, shortest(share))
        }
    }
}
