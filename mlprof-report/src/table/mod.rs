//! Tables: each is described once, and rendered as text, HTML, Markdown and JSON.
//!
//! A description has columns (title, unit, meaning), rows of typed cells, and a caption. Numbers
//! have units, so that each format writes them its own way.

mod column;
mod grid;
mod json;
mod markdown;
mod text;
mod unit;

pub use self::column::{
    Column, Merge, bytes, change, count, digits, large, markup, number, seconds, share, words,
};
pub(crate) use self::grid::Grid;
pub use self::unit::Unit;

/// A cell of a table.
#[derive(Debug, Clone)]
pub enum Cell {
    /// A name or words. Formats escape it.
    Text(String),
    /// Parts of a name, and how they are written in so many characters.
    Fitted(Vec<String>, fn(&[String], usize) -> String),
    /// Words that pages stress.
    Strong(String),
    /// A number in the unit of its column; `None` where it is not known.
    Number(Option<f64>),
    /// A part of a whole, in the unit of its column. Text has its share of the whole, behind the
    /// part where the column has digits. Pages have the part.
    Part(f64, f64),
    /// The parts of a bar: the number of a colour, and its amount.
    Bar(Vec<(usize, f64)>),
    /// HTML, which only pages show.
    Markup(String),
}

impl Cell {
    /// Returns the number of a cell that has one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => *number,
            Self::Part(part, _) => Some(*part),
            _ => None,
        }
    }

    /// Whether the cell has neither text nor a number other than 0.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) | Self::Strong(text) | Self::Markup(text) => text.is_empty(),
            Self::Fitted(parts, _) => parts.iter().all(String::is_empty),
            Self::Bar(_) => false,
            _ => self.number().is_none_or(|number| number == 0.0),
        }
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Cell {
            fn from(number: $number) -> Self {
                Self::Number(Some(number as f64))
            }
        }
    )*};
}

numbers!(f64, i64, u32, u64, usize);

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

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The order of a table's columns in text. Pages and Markdown have them as they are described, with
/// the names of rows first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TextOrder {
    /// Numbers, then words, and the names of rows last, where they may be long.
    #[default]
    NumbersFirst,
    /// The names of rows last, and the other columns as they are described.
    NameLast,
    /// As they are described.
    AsDescribed,
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// The distance from the left of a row in a tree, in levels.
    pub(crate) depth: usize,
    /// The anchor that links lead to.
    pub(crate) anchor: Option<String>,
}

/// A table. The first column names its rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    subject: Option<String>,
    text_order: TextOrder,
    rest: Option<&'static str>,
    pub(crate) is_tree: bool,
    pub(crate) is_nested: bool,
    pub(crate) group: Option<usize>,
    pub(crate) has_numbers_in_report: bool,
    pub(crate) hidden: Vec<usize>,
    pub(crate) sorted_by: Option<&'static str>,
    pub(crate) kept_by: Option<&'static str>,
    pub(crate) legend: Vec<&'static str>,
    pub(crate) folded: Option<String>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), ..Self::default() }
    }

    /// Replaces the caption.
    pub fn caption(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// Sets the thing that the table is about, which text has before the caption.
    pub fn subject(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Puts columns of text in the order in which they are described, except the names of rows,
    /// which come last.
    pub fn name_last(self) -> Self {
        Self { text_order: TextOrder::NameLast, ..self }
    }

    /// Puts columns of text in the order in which they are described.
    pub fn as_described(self) -> Self {
        Self { text_order: TextOrder::AsDescribed, ..self }
    }

    /// Sets the line that counts the rows left out of text, whose number replaces `{}`.
    pub fn rest(self, rest: &'static str) -> Self {
        Self { rest: Some(rest), ..self }
    }

    /// Shows rows below each other as in a tree, not to be sorted.
    pub(crate) fn tree(self) -> Self {
        Self { is_tree: true, ..self }
    }

    /// Shows rows below each other as in a tree, to be sorted among their neighbours or without the
    /// tree.
    pub(crate) fn nested(self, is_nested: bool) -> Self {
        Self { is_nested, ..self }
    }

    /// Lets a script put rows of this report together by the columns that are keys.
    pub(crate) fn group(self, report: usize) -> Self {
        Self { group: Some(report), ..self }
    }

    /// Leaves exact numbers out of cells: a script finds them in the report.
    pub(crate) fn numbers_in_report(self) -> Self {
        Self { has_numbers_in_report: true, ..self }
    }

    /// Keeps blank columns, hidden, for a script to fill.
    pub(crate) fn hidden(self, hidden: impl IntoIterator<Item = usize>) -> Self {
        Self { hidden: hidden.into_iter().collect(), ..self }
    }

    /// Sets the column by which rows are sorted, the highest number first.
    pub fn sorted_by(self, title: &'static str) -> Self {
        Self { sorted_by: Some(title), ..self }
    }

    /// Sets the column whose highest numbers stay where a page has no room for all rows. Without
    /// one the first rows stay.
    pub fn kept_by(self, title: &'static str) -> Self {
        Self { kept_by: Some(title), ..self }
    }

    /// Sets the names of the colours of bars.
    pub fn legend(self, legend: impl Into<Vec<&'static str>>) -> Self {
        Self { legend: legend.into(), ..self }
    }

    /// Folds the table on pages below this line, and leaves it out of text.
    pub fn folded(self, summary: impl Into<String>) -> Self {
        Self { folded: Some(summary.into()), ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(Row { cells: cells.into(), ..Row::default() });
    }

    /// Sets the depth of each row in a tree.
    pub(crate) fn depths(mut self, depths: impl IntoIterator<Item = usize>) -> Self {
        self.rows.iter_mut().zip(depths).for_each(|(row, depth)| row.depth = depth);
        self
    }

    /// Sets the anchor of each row.
    pub(crate) fn anchors(mut self, anchors: impl IntoIterator<Item = String>) -> Self {
        for (row, anchor) in self.rows.iter_mut().zip(anchors) {
            row.anchor = Some(anchor);
        }
        self
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether no row has a number other than 0, or text, in a column.
    pub(crate) fn is_blank(&self, column: usize) -> bool {
        self.rows.iter().all(|row| row.cells[column].is_blank())
    }
}

/// A table of a caption, rows, and columns, each with the cell that it has in a row.
///
/// ```ignore
/// table!("Kernels by name", &device.kernels, |row| {
///     words("Kernel", "As the trace calls it") => row.name.as_str(),
///     seconds("Time", "Of all calls").bar() => row.seconds,
/// })
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __table {
    ($caption:expr, $rows:expr, |$row:pat_param| {
        $(let $name:pat_param = $value:expr;)*
        $($column:expr => $cell:expr),+ $(,)?
    }) => {{
        let columns = vec![$($column),+];
        let mut table = $crate::table::Table::new(columns).caption($caption);
        for $row in $rows {
            $(let $name = $value;)*
            table.row([$($crate::table::Cell::from($cell)),+]);
        }
        table
    }};
}
pub use crate::__table as table;

#[cfg(test)]
mod tests;
