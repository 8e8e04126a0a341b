//! The comparison as an HTML page.

use mlprof_report::internals::sections::{self, Cell, Column, Content, Quantity, Section, Table};

use super::text::{MEASURED_OF, by_distance, circumstances, size, summary};
use super::{ComparedPlace, NumericsComparison};

/// One page that needs nothing else, with all that [`text`](super::text()) says: where the runs part, a table of all places, and one of all
/// steps.
pub fn html(comparison: &NumericsComparison) -> String {
    let mut content: Vec<Content> =
        summary(comparison).lines().map(|line| Content::Paragraph(line.to_owned())).collect();
    content.extend(circumstances(comparison).into_iter().map(Content::Paragraph));
    if !comparison.places.is_empty() {
        content.push(Content::Heading("places".to_owned(), "Places".to_owned()));
        content.push(Content::Paragraph(MEASURED_OF.to_owned()));
        content.push(Content::Table(places(comparison)));
        content.push(Content::Heading("steps".to_owned(), "Over steps".to_owned()));
        content.push(Content::Table(steps(comparison)));
    }
    let section = Section {
        title: "Numbers compared".to_owned(),
        notes: comparison.unlike.iter().map(|unlike| format!("Not alike: {unlike}.")).collect(),
        content,
        ..Section::default()
    };
    sections::html(&[], &[section])
}

/// Distances as words: of what spreads over many powers of ten a bar shows nothing.
fn distance(part: f64) -> Cell {
    Cell::Text(size(part))
}

fn places(comparison: &NumericsComparison) -> Table {
    let columns = vec![
        Column::new("Place", Quantity::Text, "The module that returned it, or the parameter"),
        Column::new("Role", Quantity::Text, "What it is for"),
        Column::new("Pairs", Quantity::Count, "How many tensors were put beside each other"),
        Column::new("Differ", Quantity::Count, "How many of them differ").bar(),
        Column::new("First step", Quantity::Text, "The first step in which they differ"),
        Column::new(
            "Apart",
            Quantity::Text,
            "The most that they are apart, as a part of their size",
        ),
        Column::new("At step", Quantity::Text, "The step of that"),
        Column::new("Last", Quantity::Text, "How far the last pair is apart"),
        Column::new("Noise", Quantity::Text, "How far two runs of the reference are apart"),
        Column::new("SQNR", Quantity::Text, "Signal to quantisation noise, of samples"),
        Column::new("Rel. L2", Quantity::Text, "The norm of the difference, of samples"),
        Column::new("Cosine", Quantity::Text, "Of the angle between samples"),
        Column::new(
            "ULPs",
            Quantity::Count,
            "How many numbers of the elements' type samples are apart",
        ),
    ];
    Table {
        caption: "All places, those that differ and the furthest apart first".to_owned(),
        columns,
        rows: by_distance(comparison).into_iter().map(row).collect(),
        ..Table::default()
    }
}

fn row(place: &ComparedPlace) -> Vec<Cell> {
    let worst = &place.worst;
    let or_none = |words: Option<String>| Cell::Text(words.unwrap_or_else(|| "-".to_owned()));
    vec![
        Cell::Text(place.name.clone()),
        Cell::Text(place.role.to_string()),
        Cell::Number(Some(place.pairs as f64)),
        Cell::Number(Some(place.different as f64)),
        or_none(place.first_step.map(|step| step.to_string())),
        distance(worst.relative),
        Cell::Text(place.worst_step.to_string()),
        distance(place.last.relative),
        distance(place.noise),
        or_none(worst.sqnr.map(|decibels| format!("{decibels:.1} dB"))),
        or_none(worst.relative_l2.map(size)),
        or_none(worst.cosine.map(|cosine| format!("{cosine:.6}"))),
        Cell::Number(worst.most_ulps.map(|ulps| ulps as f64)),
    ]
}

fn steps(comparison: &NumericsComparison) -> Table {
    let columns = vec![
        Column::new("Step", Quantity::Text, "The number of the step"),
        Column::new("Pairs", Quantity::Count, "How many tensors were put beside each other"),
        Column::new("Differ", Quantity::Count, "How many of them differ").bar(),
        Column::new("Apart", Quantity::Text, "The most that a pair is apart"),
        Column::new("Furthest", Quantity::Text, "The place of that pair"),
    ];
    let rows = comparison.over_steps.iter().map(|step| {
        vec![
            Cell::Text(step.step.to_string()),
            Cell::Number(Some(step.pairs as f64)),
            Cell::Number(Some(step.different as f64)),
            distance(step.relative),
            Cell::Text(step.furthest.clone()),
        ]
    });
    Table {
        caption: "How far the runs are apart, step by step".to_owned(),
        columns,
        rows: rows.collect(),
        ..Table::default()
    }
}
