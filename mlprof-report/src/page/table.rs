//! Tables of a page: whole without scripts, and with what a script needs to sort and group them.

use std::fmt::Write;

use super::text;
pub(super) use super::unit::Unit;

/// What becomes of a column where rows are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merge {
    /// Nothing can be said.
    Nothing,
    /// Rows are told apart by it.
    Key,
    /// It adds up.
    Sum,
    /// The least.
    Min,
    /// The most.
    Max,
    /// The mean, weighted by a column that counts calls, of which one each is not in it.
    Mean(usize),
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// What stands there, for whoever points at the title.
    pub(super) about: &'static str,
    pub(super) unit: Unit,
    pub(super) merge: Merge,
    /// Whether cells have a bar behind them, the whole of which is the largest number.
    pub(super) has_bar: bool,
}

impl Column {
    pub(super) const fn new(title: &'static str, unit: Unit, about: &'static str) -> Self {
        Self { title, about, unit, merge: Merge::Nothing, has_bar: false }
    }

    pub(super) const fn merge(self, merge: Merge) -> Self {
        Self { merge, ..self }
    }

    pub(super) const fn bar(self) -> Self {
        Self { has_bar: true, ..self }
    }
}

/// What stands in a cell.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    /// Escaped already.
    Text(String),
    /// In the unit of its column; `None` where it is not known.
    Number(Option<f64>),
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(Some(number as f64))
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Number(Some(number as f64))
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A table of any number of columns, those of them left out that say nothing.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// How far each row stands to the right, if the table is a tree.
    depths: Vec<usize>,
    /// The anchors of rows that have one.
    anchors: Vec<Option<String>>,
    is_tree: bool,
    is_nested: bool,
    /// Of which report the rows are that a script can put together.
    can_group: Option<usize>,
    /// Whether a script finds in the report what the numbers of cells are exactly.
    has_numbers_in_report: bool,
    /// Columns that are there, if not to be seen, for a script to show.
    hidden: Vec<usize>,
    sorted_by: Option<usize>,
}

impl Table {
    pub(super) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), ..Self::default() }
    }

    /// Rows stand below each other as in a tree, and are not sorted.
    pub(super) fn tree(self) -> Self {
        Self { is_tree: true, ..self }
    }

    /// Rows stand below each other as in a tree, and can be sorted all the same: beside each other, or as
    /// if there were no tree.
    pub(super) fn nested(self) -> Self {
        Self { is_nested: true, ..self }
    }

    /// Rows of this report can be put together by the columns that are keys.
    pub(super) fn can_group(self, report: usize) -> Self {
        Self { can_group: Some(report), ..self }
    }

    /// Cells have what is to be read alone: `numbers.ts` knows where their columns' numbers stand in the report.
    pub(super) fn numbers_in_report(self) -> Self {
        Self { has_numbers_in_report: true, ..self }
    }

    /// These columns stay though they say nothing: a script may have something to say there.
    pub(super) fn hidden(self, hidden: impl IntoIterator<Item = usize>) -> Self {
        Self { hidden: hidden.into_iter().collect(), ..self }
    }

    fn is_hidden(&self, column: usize) -> bool {
        self.hidden.contains(&column) && self.is_blank(column)
    }

    /// The rows come with the highest number of this column first.
    pub(super) fn sorted_by(self, column: usize) -> Self {
        Self { sorted_by: Some(column), ..self }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.row_at(0, cells);
    }

    pub(super) fn row_at(&mut self, depth: usize, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
        self.depths.push(depth);
        self.anchors.push(None);
    }

    /// A row that links lead to.
    pub(super) fn row_named(&mut self, anchor: String, cells: impl IntoIterator<Item = Cell>) {
        self.row(cells);
        if let Some(last) = self.anchors.last_mut() {
            *last = Some(anchor);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns in which no row has anything but 0.
    fn is_blank(&self, column: usize) -> bool {
        self.rows.iter().all(|row| match &row[column] {
            Cell::Text(text) => text.is_empty(),
            Cell::Number(number) => number.is_none_or(|number| number == 0.0),
        })
    }

    /// Writes the table. Nothing without rows. Writing into a string cannot fail, here and below.
    pub(super) fn write(&self, html: &mut String, caption: &str) {
        if self.rows.is_empty() {
            return;
        }
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|column| {
                *column == 0 || self.hidden.contains(column) || !self.is_blank(*column)
            })
            .collect();
        let place = |column: usize| shown.iter().position(|shown| *shown == column);
        html.push_str("<div class=scroll><table");
        let _ = match (self.is_tree, self.is_nested, self.can_group) {
            (true, _, _) => write!(html, " class=tree"),
            (_, true, _) => write!(html, " class=\"sortable nested\""),
            (_, _, Some(report)) => {
                write!(html, " class=\"sortable groupable\" data-report={report}")
            }
            _ => write!(html, " class=sortable"),
        };
        let _ = write!(html, "><caption>{}</caption><thead><tr>", text::escape(caption));
        for column in &shown {
            let Column { title, about, unit, merge, .. } = self.columns[*column];
            let _ = write!(
                html,
                "<th scope=col data-unit={} title=\"{}\"",
                unit.as_str(),
                text::escape(about)
            );
            let _ = match merge {
                Merge::Nothing => Ok(()),
                Merge::Key => write!(html, " data-merge=key"),
                Merge::Sum => write!(html, " data-merge=sum"),
                Merge::Min => write!(html, " data-merge=min"),
                Merge::Max => write!(html, " data-merge=max"),
                Merge::Mean(calls) => match place(calls) {
                    Some(calls) => write!(html, " data-merge=mean data-of={calls}"),
                    None => Ok(()),
                },
            };
            if self.columns[*column].has_bar {
                html.push_str(" data-bar");
            }
            if self.is_hidden(*column) {
                html.push_str(" hidden");
            }
            if self.sorted_by == Some(*column) {
                html.push_str(" aria-sort=descending");
            }
            let _ = write!(html, ">{title}");
        }
        html.push_str("<tbody>");
        let largest: Vec<f64> =
            (0..self.columns.len()).map(|column| self.largest(column)).collect();
        for ((row, depth), anchor) in self.rows.iter().zip(&self.depths).zip(&self.anchors) {
            let _ = match anchor {
                Some(anchor) => write!(html, "<tr id={anchor}>"),
                None => write!(html, "<tr>"),
            };
            for column in &shown {
                if self.is_hidden(*column) {
                    html.push_str("<td hidden>");
                    continue;
                }
                let level = (self.is_tree || self.is_nested).then_some(*depth);
                let head = (*column == shown[0]).then_some(level);
                let has_number = !self.has_numbers_in_report;
                let column = *column;
                self.columns[column].write(html, &row[column], largest[column], head, has_number);
            }
        }
        html.push_str("</table></div>\n");
    }

    fn largest(&self, column: usize) -> f64 {
        let number = |row: &Vec<Cell>| match row[column] {
            Cell::Number(Some(number)) => number,
            _ => 0.0,
        };
        self.rows.iter().map(number).fold(0.0, f64::max)
    }
}

impl Column {
    /// `head`: whether the cell names its row, and how far it then stands to the right in a tree. `has_number`:
    /// whether the cell has its number where its text does not say it all.
    fn write(
        &self,
        html: &mut String,
        cell: &Cell,
        largest: f64,
        head: Option<Option<usize>>,
        has_number: bool,
    ) {
        let _ = match (cell, head) {
            (Cell::Text(text), Some(Some(level))) => {
                write!(html, "<th scope=row class=d{}>{text}", level.min(DEEPEST))
            }
            (Cell::Text(text), Some(None)) => write!(html, "<th scope=row>{text}"),
            (Cell::Text(text), None) => write!(html, "<td>{text}"),
            (Cell::Number(None), _) => write!(html, "<td class=n>–"),
            (Cell::Number(Some(number)), _) => {
                debug_assert!(self.unit.is_number());
                let bar = if self.has_bar && largest > 0.0 { bar(*number / largest) } else { 0 };
                let _ = match bar {
                    0 => write!(html, "<td class=n"),
                    _ => write!(html, "<td class=\"n b{bar}\""),
                };
                let (value, text) = (plain(*number), self.unit.write(*number));
                // Scripts read the text where it says all: of zeros there are many.
                if has_number && *number != 0.0 && value != text {
                    let _ = write!(html, " data-v={value}");
                }
                write!(html, ">{text}")
            }
        };
    }
}

/// The style sheet has a class for so many levels.
const DEEPEST: usize = 24;

/// The style sheet has a bar for every second percent.
fn bar(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 50.0).round() as u32
}

/// Six digits, which is what sorting and adding up need.
fn plain(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    crate::number::general(number, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(plain(1.0 / 3.0), "0.333333");
        assert_eq!(plain(18_446.0), "18446");
    }

    #[test]
    fn columns_without_anything_are_left_out() {
        let mut table = Table::new([
            Column::new("Name", Unit::Text, "").merge(Merge::Key),
            Column::new("Calls", Unit::Count, "").merge(Merge::Sum),
            Column::new("Waiting", Unit::Seconds, ""),
            Column::new("Total", Unit::Seconds, "").merge(Merge::Sum).bar(),
            Column::new("Mean", Unit::Seconds, "").merge(Merge::Mean(1)),
        ]);
        let row = |name: &str, calls: u64, total: f64| {
            let name = Cell::Text(text::name(name, 50));
            [name, calls.into(), None.into(), total.into(), (total / calls as f64).into()]
        };
        table.row(row("<a>", 2, 1.0));
        table.row(row("b", 1, 0.5));
        let mut html = String::new();
        table.write(&mut html, "Actions");
        assert!(!html.contains("Waiting"), "{html}");
        assert!(html.contains("data-merge=mean data-of=1"), "columns that are there: {html}");
        assert!(html.contains("<th scope=row>&lt;a&gt;<td class=n>2<td"), "{html}");
        assert!(html.contains("<td class=\"n b25\" data-v=0.5>500 ms"), "{html}");
    }
}
