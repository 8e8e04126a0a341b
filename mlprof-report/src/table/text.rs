//! Tables as text.

use super::grid::Grid;
use super::{Cell, Column, Row, Table, TextOrder, Unit};
use crate::counted::counted;
use crate::label::shown;
use crate::number::{grouped, share};

/// Maximum length of a fitted name that is not in the last column, in characters.
const MIDDLE: usize = 24;

/// Minimum share of the whole for a row to be shown on its own.
pub const LEAST_SHARE: f64 = 0.001;

/// Names the row that stands for small rows: `78 rows below 0.1 %`.
pub fn small_rows(count: usize) -> String {
    format!("{} below {} %", counted(count as u64, "row", "rows"), 100.0 * LEAST_SHARE)
}

/// Rows of a table in text.
struct Extent<'table> {
    shown: Vec<&'table Row>,
    left_out: Vec<&'table Row>,
    /// Words that count the rows left out.
    rest: String,
}

impl Table {
    /// Returns at most `limit` rows as text, or all rows if it is `usize::MAX`. Returns an empty
    /// string without rows. Rows that are left out are counted and summed in a row of their own, or
    /// counted in a line if no column [adds up](super::Column::adds_up).
    pub fn text(&self, limit: usize) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let Extent { shown, left_out, rest } = self.extent(limit);
        let mut columns = self.text_columns();
        let has_sums = columns.iter().any(|column| self.columns[*column].adds_up);
        let summed = [
            (has_sums && !left_out.is_empty()).then(|| self.summed(&rest, &left_out)),
            self.has_sum.then(|| self.summed("Sum", &self.rows.iter().collect::<Vec<_>>())),
        ];
        let rows: Vec<&Row> = shown.into_iter().chain(&summed[0]).chain(&summed[1]).collect();
        let last = columns.pop();
        let titles = columns.iter().chain(&last).map(|column| self.columns[*column].title);
        let mut grid = Grid::new(titles);
        for (place, row) in rows.iter().enumerate() {
            if self.has_sum && place + 1 == rows.len() {
                grid.rule();
            }
            let mut cells: Vec<_> =
                columns.iter().map(|column| self.text_cell(row, *column, MIDDLE)).collect();
            cells.extend(last.map(|_| String::new()));
            grid.row(cells);
        }
        let room = grid.room();
        if let Some(last) = last {
            let indented = |row: &&Row| "  ".repeat(row.depth) + &self.text_cell(row, last, room);
            grid.fill_last(rows.iter().map(indented));
        }
        let mut text = grid.paint();
        if !has_sums && !left_out.is_empty() {
            text.push_str(&rest);
            text.push('\n');
        }
        text
    }

    fn extent(&self, limit: usize) -> Extent<'_> {
        let share = self.small_by.filter(|_| limit < usize::MAX);
        let share = share.and_then(|title| self.columns.iter().position(|it| it.title == title));
        let is_small = |row: &&Row| {
            let share = share.and_then(|place| row.cells[place].number());
            share.is_some_and(|share| share < LEAST_SHARE)
        };
        let (mut small, mut shown): (Vec<_>, Vec<_>) = self.rows.iter().partition(is_small);
        // One small row needs no more space than a row that counts it.
        if small.len() == 1 || shown.is_empty() {
            small.clear();
            shown = self.rows.iter().collect();
        }
        let mut left_out = shown.split_off(limit.min(shown.len()));
        let are_small = left_out.is_empty();
        left_out.extend(small);
        let rest = match are_small {
            true => small_rows(left_out.len()),
            false => {
                let rest = self.rest.as_deref().unwrap_or("… and {} more");
                rest.replacen("{}", &grouped(left_out.len() as u64), 1)
            }
        };
        Extent { shown, left_out, rest }
    }

    /// Returns a row with the sums of the columns that add up. The other cells are empty.
    fn summed(&self, name: &str, rows: &[&Row]) -> Row {
        let sum = |(place, column): (usize, &Column)| match place {
            0 => Cell::from(name),
            _ if column.adds_up => {
                let numbers = || rows.iter().filter_map(|row| row.cells[place].number());
                Cell::Number(numbers().next().map(|_| numbers().fold(0.0, |sum, it| sum + it)))
            }
            _ => Cell::from(""),
        };
        Row { cells: self.columns.iter().enumerate().map(sum).collect(), ..Row::default() }
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
