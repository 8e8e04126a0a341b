//! Content types of sections.

use crate::finding::Finding;
use crate::table::Table;

/// A section of a page.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Title of the section.
    pub title: String,
    /// Properties below the title, each with a name and a value.
    pub facts: Vec<(&'static str, String)>,
    /// Notes that are needed to interpret the numbers.
    pub notes: Vec<String>,
    /// Findings, which appear at the top of the page together with those of reports.
    pub findings: Vec<Finding>,
    /// Content from top to bottom.
    pub content: Vec<Content>,
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub enum Content {
    /// A heading with its anchor, which is unique within the section, and its text.
    Heading(String, String),
    /// A paragraph.
    Paragraph(String),
    /// An explanation that appears only in pages.
    Explanation(String),
    /// A table.
    Table(Table),
    /// A sequence of intervals.
    Strip(Strip),
}

/// A sequence of intervals as one bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Strip {
    /// Description of the strip.
    pub about: String,
    /// Names of the colours.
    pub legend: Vec<&'static str>,
    /// Intervals from left to right, without gaps.
    pub stretches: Vec<Stretch>,
}

/// An interval of a strip.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Index of the colour.
    pub colour: usize,
    /// Length in seconds.
    pub seconds: f64,
    /// Description of the interval.
    pub what: String,
}
