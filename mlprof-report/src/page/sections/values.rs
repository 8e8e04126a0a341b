//! The values that sections consist of.

use crate::finding::Finding;

/// Colours that there are for the parts of a bar.
pub const COLOURS: usize = 7;

/// A section of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// What it is of.
    pub title: String,
    /// What stands below the title: what it is, and its value.
    pub facts: Vec<(&'static str, String)>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// What costs time, which stands on top of the page with the findings of reports.
    pub findings: Vec<Finding>,
    /// From the top to the bottom.
    pub content: Vec<Content>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A heading with the anchor that leads to it, which is of its own in the section.
    Heading(String, String),
    /// A paragraph.
    Paragraph(String),
    /// A table.
    Table(Table),
    /// What came one after the other.
    Strip(Strip),
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Names.
    Text,
    /// Bars of several parts.
    Parts,
    /// Whole numbers.
    Count,
    /// Times.
    Seconds,
    /// Sizes.
    Bytes,
    /// Parts of a whole, 0 to 1.
    Share,
    /// Plain numbers.
    Number,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// What it holds.
    pub quantity: Quantity,
    /// What stands there, for whoever points at the title.
    pub about: &'static str,
    /// Whether numbers have a bar behind them.
    pub has_bar: bool,
}

impl Column {
    /// A column without bars.
    pub const fn new(title: &'static str, quantity: Quantity, about: &'static str) -> Self {
        Self { title, quantity, about, has_bar: false }
    }

    /// The same with bars, the whole of which is the largest number.
    pub const fn bar(self) -> Self {
        Self { has_bar: true, ..self }
    }
}

/// What stands in a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A name, or words.
    Text(String),
    /// A number in the unit of its column; `None` where it is not known.
    Number(Option<f64>),
    /// The parts of a bar: which colour, and how much.
    Parts(Vec<(usize, f64)>),
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What it is of.
    pub caption: String,
    /// Its columns, of which those without anything are not shown.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// The column by which rows come, the largest first.
    pub sorted_by: Option<usize>,
    /// The column whose largest numbers are kept where there is no room for all rows; else the first rows are.
    pub kept_by: Option<usize>,
    /// What the colours of bars stand for.
    pub legend: Vec<&'static str>,
    /// What is read before the table is unfolded; `None` where it is not folded.
    pub folded: Option<String>,
}

/// What came one after the other, as one bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Strip {
    /// What it is of.
    pub about: String,
    /// What its colours stand for.
    pub legend: Vec<&'static str>,
    /// From the left to the right, without gaps.
    pub stretches: Vec<Stretch>,
}

/// A part of a strip.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Its colour.
    pub colour: usize,
    /// How long it is.
    pub seconds: f64,
    /// What it is, in words.
    pub what: String,
}
