//! Tables with one definition for text, HTML, Markdown and JSON.
//!
//! A definition has columns (title, unit, meaning), rows of typed cells, and a caption. Numbers
//! have units, so each format writes them in its own way.

mod column;
mod grid;
mod json;
mod markdown;
mod text;
mod unit;

use std::borrow::Cow;

pub use self::column::{
    Column, Merge, bytes, change, count, digits, large, markup, number, percent, seconds, share,
    words,
};
pub use self::text::{LEAST_SHARE, small_rows};
pub use self::unit::Unit;

/// A cell of a table.
#[derive(Debug, Clone)]
pub enum Cell {
    /// A name or words. Each format escapes them.
    Text(String),
    /// Parts of a name, and a function that joins them within a number of characters.
    Fitted(Vec<String>, fn(&[String], usize) -> String),
    /// Words that pages emphasize.
    Strong(String),
    /// A number in the unit of its column. `None` if it is unknown.
    Number(Option<f64>),
    /// A part and its whole, in the unit of the column. Text shows the share of the whole, after
    /// the part if the column has digits. Pages show the part.
    Part(f64, f64),
    /// Segments of a bar, each with the index of a colour and an amount.
    Bar(Vec<(usize, f64)>),
    /// HTML, which only pages show.
    Markup(String),
}

impl Cell {
    /// Returns the number of a cell, if it has one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => *number,
            Self::Part(part, _) => Some(*part),
            _ => None,
        }
    }

    /// Returns `true` if the cell has neither text nor a nonzero number.
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

/// Order of a table's columns in text. Pages and Markdown keep the order of the definition, with
/// row names first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TextOrder {
    /// Numbers first, then words, and row names last, because they can be long.
    #[default]
    NumbersFirst,
    /// Row names last, and the other columns in the order of the definition.
    NameLast,
    /// The order of the definition.
    AsDescribed,
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// Nesting level of the row in a tree.
    pub(crate) depth: usize,
    /// Anchor of the row for links.
    pub(crate) anchor: Option<String>,
}

/// A table. The first column contains the row names.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    subject: Option<String>,
    text_order: TextOrder,
    rest: Option<Cow<'static, str>>,
    /// Title of the column of shares that determines which rows are small.
    small_by: Option<&'static str>,
    has_sum: bool,
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
    /// Creates a table without rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), ..Self::default() }
    }

    /// Sets the caption.
    pub fn caption(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// Sets the subject of the table, which text shows before the caption.
    pub fn subject(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Orders the columns of text as in the definition, except that row names come last.
    pub fn name_last(self) -> Self {
        Self { text_order: TextOrder::NameLast, ..self }
    }

    /// Orders the columns of text as in the definition.
    pub fn as_described(self) -> Self {
        Self { text_order: TextOrder::AsDescribed, ..self }
    }

    /// Sets the words that count the rows left out of text. The count replaces `{}`.
    pub fn rest(self, rest: impl Into<Cow<'static, str>>) -> Self {
        Self { rest: Some(rest.into()), ..self }
    }

    /// Combines the rows of text whose share in this column is below [`LEAST_SHARE`] into one row.
    pub fn fold_small(self, share: &'static str) -> Self {
        Self { small_by: Some(share), ..self }
    }

    /// Adds a row to text with the sums of the columns that [add up](Column::adds_up).
    pub(crate) fn with_sum(self) -> Self {
        Self { has_sum: true, ..self }
    }

    /// Shows rows as a tree that cannot be sorted.
    pub(crate) fn tree(self) -> Self {
        Self { is_tree: true, ..self }
    }

    /// Shows rows as a tree that can be sorted among siblings, or without the tree.
    pub(crate) fn nested(self, is_nested: bool) -> Self {
        Self { is_nested, ..self }
    }

    /// Allows the script to merge rows of this report by the key columns.
    pub(crate) fn group(self, report: usize) -> Self {
        Self { group: Some(report), ..self }
    }

    /// Omits exact numbers in cells, because the script finds them in the report's JSON.
    pub(crate) fn numbers_in_report(self) -> Self {
        Self { has_numbers_in_report: true, ..self }
    }

    /// Keeps blank columns as hidden columns that the script can fill.
    pub(crate) fn hidden(self, hidden: impl IntoIterator<Item = usize>) -> Self {
        Self { hidden: hidden.into_iter().collect(), ..self }
    }

    /// Sets the column by which rows are sorted, highest number first.
    pub fn sorted_by(self, title: &'static str) -> Self {
        Self { sorted_by: Some(title), ..self }
    }

    /// Sets the column that selects the rows to keep if a page has too many. The rows with the
    /// highest numbers are kept. Without such a column, the first rows are kept.
    pub fn kept_by(self, title: &'static str) -> Self {
        Self { kept_by: Some(title), ..self }
    }

    /// Sets the names of the bar colours.
    pub fn legend(self, legend: impl Into<Vec<&'static str>>) -> Self {
        Self { legend: legend.into(), ..self }
    }

    /// Collapses the table on pages below this line, and omits it in text.
    pub fn folded(self, summary: impl Into<String>) -> Self {
        Self { folded: Some(summary.into()), ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(Row { cells: cells.into(), ..Row::default() });
    }

    /// Sets the nesting level of each row in a tree.
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

    /// Returns `true` if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns `true` if no row has text or a nonzero number in the column.
    pub(crate) fn is_blank(&self, column: usize) -> bool {
        self.rows.iter().all(|row| row.cells[column].is_blank())
    }
}

/// Creates a table from a caption, rows, and columns. Each column has an expression for its cell in
/// a row.
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
