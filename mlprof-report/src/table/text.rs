//! Tables as text.

use super::{Cell, Grid, Row, Table, TextOrder, Unit};
use crate::label::shown;
use crate::number::{grouped, share};

/// Maximum length of a fitted name that is not in the last column, in characters.
const MIDDLE: usize = 24;

impl Table {
    /// Returns at most `limit` rows as text. Returns an empty string without rows. A line counts
    /// the rows that were left out.
    pub fn text(&self, limit: usize) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let rows = &self.rows[..self.rows.len().min(limit)];
        let mut columns = self.text_columns();
        let last = columns.pop();
        let titles = columns.iter().chain(&last).map(|column| self.columns[*column].title);
        let mut grid = Grid::new(titles);
        for row in rows {
            let mut cells: Vec<_> =
                columns.iter().map(|column| self.text_cell(row, *column, MIDDLE)).collect();
            cells.extend(last.map(|_| String::new()));
            grid.row(cells);
        }
        let room = grid.room();
        if let Some(last) = last {
            let indented = |row: &Row| "  ".repeat(row.depth) + &self.text_cell(row, last, room);
            grid.fill_last(rows.iter().map(indented));
        }
        let mut text = grid.paint();
        if let Some(more @ 1..) = self.rows.len().checked_sub(limit) {
            let rest = self.rest.unwrap_or("… and {} more");
            text.push_str(&rest.replacen("{}", &grouped(more as u64), 1));
            text.push('\n');
        }
        text
    }

    /// Returns the line above the table in text, such as `Device 0: kernels by name`. A table
    /// without a subject uses the given section heading, unless the caption repeats it.
    pub fn heading(&self, heading: Option<&str>) -> String {
        match (&self.subject, heading) {
            (Some(subject), _) => {
                let mut letters = self.caption.chars();
                let first = letters.next().into_iter().flat_map(char::to_lowercase);
                format!("{subject}: {}{}", first.collect::<String>(), letters.as_str())
            }
            (None, Some(heading)) if !self.caption.starts_with(heading) => heading.to_owned(),
            _ => self.caption.clone(),
        }
    }

    /// Returns the indices of the text columns, in the order of text.
    fn text_columns(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.shown_in_text().collect();
        match self.text_order {
            TextOrder::AsDescribed => {}
            TextOrder::NameLast => places.rotate_left(1),
            TextOrder::NumbersFirst => {
                places.rotate_left(1);
                let last = places.len().saturating_sub(1);
                places[..last].sort_by_key(|place| self.columns[*place].unit == Unit::Text);
            }
        }
        places
    }

    /// Returns the indices of the text columns, in the order of the definition.
    pub(super) fn shown_in_text(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|place| {
            let column = &self.columns[*place];
            column.is_in_text() && !(column.is_optional && self.is_blank(*place))
        })
    }

    pub(super) fn text_cell(&self, row: &Row, column: usize, room: usize) -> String {
        let Some(cell) = row.cells.get(column) else { return String::new() };
        let column = &self.columns[column];
        match cell {
            Cell::Text(text) | Cell::Strong(text) => shown(text),
            Cell::Fitted(parts, fit) => fit(parts, room),
            Cell::Number(Some(0.0)) if column.has_no_zero => "-".to_owned(),
            Cell::Number(Some(number)) => column.unit.write_text(*number),
            Cell::Number(None) => column.absent.unwrap_or("-").to_owned(),
            Cell::Part(part, whole) => match column.unit {
                Unit::Digits(_) if *part <= 0.0 => "-".to_owned(),
                unit @ Unit::Digits(_) => {
                    format!("{} {:>7}", unit.write_text(*part), share(*part, *whole))
                }
                _ => share(*part, *whole),
            },
            Cell::Bar(_) | Cell::Markup(_) => String::new(),
        }
    }
}
