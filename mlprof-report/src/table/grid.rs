//! Aligned text columns.

use unicode_width::UnicodeWidthStr;

/// Maximum width of rules, even if the last column is wider.
const PAGE_WIDTH: usize = 120;
const GAP: &str = "  ";
/// Minimum width of a name, because shorter names are unreadable.
const LEAST_ROOM: usize = 20;

/// Text rows in which the last column is left-aligned and all others are right-aligned. Names are
/// in the last column, so long names do not shift the numbers.
#[derive(Debug)]
pub(crate) struct Grid {
    header: Vec<String>,
    /// Rows of cells. `None` is a rule.
    rows: Vec<Option<Vec<String>>>,
}

impl Grid {
    /// Creates a grid without rows.
    pub(crate) fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        let header: Vec<String> = header.into_iter().map(str::to_owned).collect();
        Self { header, rows: vec![None] }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(Some(cells.into()));
    }

    /// Adds a rule.
    pub(crate) fn rule(&mut self) {
        self.rows.push(None);
    }

    /// Returns the width that remains for the last column, in terminal columns. It depends on the
    /// rows added so far and is at least 20.
    pub(crate) fn room(&self) -> usize {
        let others = self.header.len().saturating_sub(1);
        let widths: usize = self.widths()[..others].iter().sum();
        PAGE_WIDTH.saturating_sub(widths + GAP.len() * others).max(LEAST_ROOM)
    }

    /// Replaces the last cell of each row by the corresponding item of `cells`.
    pub(super) fn fill_last(&mut self, cells: impl IntoIterator<Item = String>) {
        for (row, filled) in self.rows.iter_mut().flatten().zip(cells) {
            if let Some(cell) = row.last_mut() {
                *cell = filled;
            }
        }
    }

    /// Returns all lines, each with a line break and without trailing spaces.
    pub(crate) fn paint(&self) -> String {
        let widths = self.widths();
        let gaps = GAP.len() * self.header.len().saturating_sub(1);
        let all = widths.iter().sum::<usize>() + gaps;
        let rule = "─".repeat(all.min(PAGE_WIDTH));
        let mut text = String::new();
        let header = Some(Some(&self.header));
        for row in header.into_iter().chain(self.rows.iter().map(Option::as_ref)) {
            let line = row.map_or_else(|| rule.clone(), |cells| self.line(cells, &widths));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.header.len()];
        for cells in self.rows.iter().flatten().chain([&self.header]) {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let last = cells.len().saturating_sub(1);
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if column < last {
                line.push_str(&" ".repeat(width.saturating_sub(cell.width())));
            }
            line.push_str(cell);
            line.push_str(GAP);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_a_terminal_shows() {
        let mut table = Grid::new(["Calls", "Time", "Action"]);
        table.row(["1", "12 µs", "模型"].map(str::to_owned));
        table.row(["12345678", "层", "x"].map(str::to_owned));
        table.rule();
        table.row(["", "1", ""].map(str::to_owned));
        let expected = "   Calls   Time  Action\n\
                        ───────────────────────\n       1  12 µs  模型\n\
                        12345678     层  x\n\
                        ───────────────────────\n              1\n";
        assert_eq!(table.paint(), expected);
    }

    #[test]
    fn the_last_column_has_the_room_that_others_leave() {
        let mut table = Grid::new(["Calls", "Name"]);
        assert_eq!(table.room(), PAGE_WIDTH - 7);
        table.row(["12345678", "x"].map(str::to_owned));
        assert_eq!(table.room(), PAGE_WIDTH - 10);
        table.row([&"1".repeat(500), "x"].map(str::to_owned));
        assert_eq!(table.room(), LEAST_ROOM);
    }

    #[test]
    fn a_long_last_column_does_not_lengthen_rules() {
        let mut table = Grid::new(["n", "name"]);
        table.row(["1".to_owned(), "x".repeat(500)]);
        let text = table.paint();
        assert_eq!(text.lines().nth(1).map(|rule| rule.chars().count()), Some(PAGE_WIDTH));
        assert!(text.contains(&"x".repeat(500)));
    }
}
