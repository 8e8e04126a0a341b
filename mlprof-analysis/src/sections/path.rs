//! Report sections of the critical path: the drawn path of one step, and the sums over all steps.

use mlprof_report::internals::sections::{COLOURS, Content, Stretch, Strip};
use mlprof_report::internals::table::{Table, count, seconds, share, table, words};

use super::cells::{ns, share_of};
use super::names::{kernel, name};
use super::{heading, time};
use crate::analysis::Analysis;
use crate::answers::{Activity, CriticalPath, PathKind, PathSegment};

/// Legend of the critical path colours.
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
    content.push(Content::Explanation(format!(
        "The critical path is the chain of work and waiting that determines the duration of {of}. It includes \
         gaps, so it is as long as {of}."
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
        Some(number) => format!("Critical path of step {number}"),
        None => "Critical path of the trace".to_owned(),
    }
}

fn segment_label(segment: &PathSegment) -> String {
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
        what: segment_label(segment),
    });
    Strip { about: named(path), legend: KINDS.to_vec(), stretches: stretches.collect() }
}

fn sums(analysis: &Analysis) -> Table {
    let all = analysis.steps.iter().map(|step| step.duration_ns).sum();
    let of = if analysis.has_steps() { "all steps" } else { "the trace" };
    let caption = format!("Critical path of {of}; the rows add up");
    let table = table!(caption, analysis.path_parts(), |part| {
        let named = part.name.as_deref().unwrap_or("-");
        words("Name", "Name of the work; - where nothing is recorded") =>
            if part.kind.names_device_work() { kernel(named) } else { name(named) },
        words("What", "Kind of the path segment") => part.kind.text(),
        seconds("Time", "Time on the critical paths of all steps").adds_up().bar() => ns(part.duration_ns),
        share("Share", "Share of the time of all steps").adds_up() => share_of(part.duration_ns, all),
        count("Count", "Number of path segments").adds_up() => part.count,
    });
    table.sorted_by("Time").fold_small("Share")
}

fn stretches(path: &CriticalPath) -> Table {
    let named = named(path);
    let caption = format!("{named}, {}", time(path.length_ns));
    let table = table!(caption, &path.segments, |segment| {
        words("Name", "Name of the work") => segment.name.as_deref().unwrap_or("–"),
        words("What", "Kind of the path segment") => segment.kind.text(),
        seconds("Start", "Start time, relative to the start of the step") => ns(segment.start_ns),
        seconds("Time", "Duration of the segment").bar() => ns(segment.duration_ns),
        words("Where", "Thread or stream of the segment") => segment.track.as_str(),
    });
    table.kept_by("Time").folded(format!("{named}, by segment"))
}
