//! The values that sections consist of.

use crate::finding::Finding;
use crate::table::Table;

/// A section of a page.
#[derive(Debug, Clone, Default)]
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
#[derive(Debug, Clone)]
pub enum Content {
    /// A heading with the anchor that leads to it, which is of its own in the section.
    Heading(String, String),
    /// A paragraph.
    Paragraph(String),
    /// An explanation for which only pages have room.
    Explanation(String),
    /// A table.
    Table(Table),
    /// What came one after the other.
    Strip(Strip),
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
