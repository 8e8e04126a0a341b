//! The critical path: drawn of one step, and what it goes through in all of them.

use mlprof_report::internals::sections::{
    COLOURS, Column, Content, Quantity, Stretch, Strip, Table,
};

use super::cells::{number, seconds, share, table, words};
use super::heading;
use crate::analysis::Analysis;
use crate::answers::{Activity, CriticalPath, PathKind, PathSegment};
use crate::text::time;

/// What colours stand for.
const KINDS: [&str; COLOURS] = [
    "waiting for data",
    "kernels",
    "a thread works",
    "communication",
    "nothing recorded",
    "copies and fills",
    "launch delay, between kernels, waiting for the device",
];

fn colour(kind: PathKind) -> usize {
    match kind {
        PathKind::Host(Activity::WaitingForData) => 0,
        PathKind::Compute => 1,
        PathKind::Communication => 3,
        PathKind::Host(Activity::Nothing) | PathKind::Unexplained => 4,
        PathKind::Memory => 5,
        PathKind::LaunchDelay | PathKind::BetweenKernels | PathKind::ReturnFromWaiting => 6,
        PathKind::Host(Activity::WaitingForDevice) => 6,
        PathKind::Host(_) => 2,
    }
}

pub(super) fn add(content: &mut Vec<Content>, analysis: &Analysis) {
    heading(content, "path", "Critical path");
    let of = if analysis.has_steps() { "a step" } else { "the trace" };
    content.push(Content::Paragraph(format!(
        "What the end of {of} waited for, and what that waited for, back to its beginning: what would make it shorter. \
         Gaps are on it, so it is as long as {of}."
    )));
    for path in analysis.critical_paths.iter().filter(|path| !path.segments.is_empty()) {
        content.push(Content::Strip(strip(path)));
    }
    content.push(Content::Table(sums(analysis)));
    for path in analysis.critical_paths.iter().filter(|path| !path.segments.is_empty()) {
        content.push(Content::Table(stretches(path)));
    }
}

fn named(path: &CriticalPath) -> String {
    match path.step {
        Some(number) => format!("The critical path of step {number}"),
        None => "The critical path of the trace".to_owned(),
    }
}

fn said(segment: &PathSegment) -> String {
    let what = match &segment.name {
        Some(name) => format!("{name}, {}", segment.kind.text()),
        None => segment.kind.text().to_owned(),
    };
    format!("{what} · {}", segment.track)
}

fn strip(path: &CriticalPath) -> Strip {
    let stretches = path.segments.iter().map(|segment| Stretch {
        colour: colour(segment.kind),
        seconds: segment.duration_ns as f64 / 1e9,
        what: said(segment),
    });
    Strip { about: named(path), legend: KINDS.to_vec(), stretches: stretches.collect() }
}

fn sums(analysis: &Analysis) -> Table {
    let all = analysis.steps.iter().map(|step| step.duration_ns).sum();
    let columns = [
        Column::new("Name", Quantity::Text, "What happens; – where nothing is recorded"),
        Column::new("What", Quantity::Text, "What that is on the path"),
        Column::new("Time", Quantity::Seconds, "On the critical paths of all steps").bar(),
        Column::new("Share", Quantity::Share, "Of the time of all steps"),
        Column::new("Count", Quantity::Count, "How many stretches"),
    ];
    let rows = analysis.path_parts().into_iter().map(|part| {
        vec![
            words(part.name.unwrap_or_else(|| "–".to_owned())),
            words(part.kind.text()),
            seconds(part.duration_ns),
            share(part.duration_ns, all),
            number(part.count as f64),
        ]
    });
    let table =
        table("What critical paths go through, of all steps; the rows add up", columns, rows);
    Table { sorted_by: Some(2), ..table }
}

fn stretches(path: &CriticalPath) -> Table {
    let columns = [
        Column::new("Name", Quantity::Text, "What happens"),
        Column::new("What", Quantity::Text, "What that is on the path"),
        Column::new("Begins", Quantity::Seconds, "After the beginning of the step"),
        Column::new("Time", Quantity::Seconds, "How long it is").bar(),
        Column::new("Where", Quantity::Text, "On which thread or stream"),
    ];
    let rows = path.segments.iter().map(|segment| {
        vec![
            words(segment.name.clone().unwrap_or_else(|| "–".to_owned())),
            words(segment.kind.text()),
            seconds(segment.start_ns),
            seconds(segment.duration_ns),
            words(segment.track.as_str()),
        ]
    });
    let named = named(path);
    let table = table(&format!("{named}, {}", time(path.length_ns)), columns, rows);
    Table { kept_by: Some(3), folded: Some(format!("{named}, stretch by stretch")), ..table }
}
