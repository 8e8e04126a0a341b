//! HTML page of a comparison.

use mlprof_report::internals::sections::{self, Content, Section};

use super::NumericsComparison;
use super::text::{circumstances, content as tables, summary};

/// Renders the comparison as a self-contained page with the content of [`text`](super::text()). It
/// shows where the runs diverge, a table of all places and a table of all steps.
pub fn html(comparison: &NumericsComparison) -> String {
    let mut content: Vec<Content> =
        summary(comparison).lines().map(|line| Content::Paragraph(line.to_owned())).collect();
    content.extend(circumstances(comparison).into_iter().map(Content::Paragraph));
    content.extend(tables(comparison, &comparison.over_steps.iter().collect::<Vec<_>>()));
    let section = Section {
        title: "Numerics comparison".to_owned(),
        notes: comparison
            .unlike
            .iter()
            .map(|unlike| format!("Different conditions: {unlike}."))
            .collect(),
        content,
        ..Section::default()
    };
    sections::html(&[], &[section])
}
