//! Steps, and what their time went into.

use rustc_hash::FxHashMap;

use crate::answers::{Activity, StepBreakdown, StepPart};
use crate::meaning::Meanings;
use crate::sweep;
use crate::trace::{Name, Trace, TrackKind};

/// A step, or all of a trace that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) number: Option<u64>,
    /// The thread that ran it.
    pub(crate) track: usize,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// Which step something began in.
pub(crate) struct StepOf(Vec<(i64, i64, u64)>);

impl StepOf {
    /// `steps`: by their beginnings.
    pub(crate) fn new(steps: &[Step]) -> Self {
        let steps = steps.iter().filter_map(|step| Some((step.start, step.end, step.number?)));
        Self(steps.collect())
    }

    /// The number of the step at a moment.
    pub(crate) fn number(&self, moment: i64) -> Option<u64> {
        let after = self.0.partition_point(|(from, ..)| *from <= moment);
        let (_, end, number) = self.0.get(after.checked_sub(1)?)?;
        (moment < *end).then_some(*number)
    }
}

/// All steps in the order of time. Without any it is the whole trace, on the thread with most in it.
pub(crate) fn find(trace: &Trace, meanings: &Meanings) -> Vec<Step> {
    let mut steps = Vec::new();
    for slice in &trace.slices {
        let Some(number) = meanings.step(slice) else { continue };
        let track = &trace.tracks[slice.track as usize];
        if track.kind == TrackKind::Thread {
            let track = track.overlaps.unwrap_or(slice.track) as usize;
            steps.push(Step { number: Some(number), track, start: slice.start, end: slice.end() });
        }
    }
    steps.sort_by_key(|step| (step.start, step.end));
    if steps.is_empty() {
        steps.extend(whole(trace));
    }
    steps
}

fn whole(trace: &Trace) -> Option<Step> {
    let (start, end) = trace.window()?;
    let roots = |place: usize| {
        let slices = trace.of_track(&trace.tracks[place]).iter();
        slices.filter(|slice| slice.depth == 0).map(|slice| slice.duration).sum::<i64>()
    };
    let threads = trace.tracks_of(TrackKind::Thread).map(|(place, _)| (place, roots(place)));
    // Of several with as much the first one.
    let busier = |best: (usize, i64), next: (usize, i64)| if next.1 > best.1 { next } else { best };
    let (track, _) = threads.reduce(busier)?;
    Some(Step { number: None, track, start, end })
}

/// From the beginning of the first to the end of the last step; of a trace without threads all of it.
pub(crate) fn window(trace: &Trace, steps: &[Step]) -> (i64, i64) {
    let start = steps.iter().map(|step| step.start).min();
    let end = steps.iter().map(|step| step.end).max();
    start.zip(end).or_else(|| trace.window()).unwrap_or((0, 0))
}

/// Parts by the action around them and what was done, before they have texts.
pub(crate) type Parts = FxHashMap<(Option<Name>, Activity), i64>;

/// What the time of a step went into, and how long the loop waited for data.
pub(crate) fn parts(trace: &Trace, meanings: &Meanings, step: &Step) -> (Parts, i64) {
    let (mut parts, mut data) = (Parts::default(), 0);
    sweep::innermost(trace, step.track, (step.start, step.end), |start, end, innermost| {
        let action = innermost.and_then(|place| meanings.action(place));
        let action = action.map(|place| trace.slices[place].name);
        let activity = meanings.activity(trace, innermost);
        *parts.entry((action, activity)).or_default() += end - start;
        if innermost.is_some_and(|place| meanings.is_in_data(place)) {
            data += end - start;
        }
    });
    (parts, data)
}

/// The breakdown of a step.
pub(crate) fn breakdown(
    trace: &Trace,
    step: &Step,
    begin: i64,
    (parts, data): &(Parts, i64),
) -> StepBreakdown {
    StepBreakdown {
        number: step.number,
        thread: trace.track_name(step.track),
        start_ns: step.start - begin,
        duration_ns: step.end - step.start,
        waiting_for_data_ns: *data,
        parts: with_texts(trace, parts),
    }
}

/// The longest first.
pub(crate) fn with_texts(trace: &Trace, parts: &Parts) -> Vec<StepPart> {
    let mut parts: Vec<StepPart> = parts
        .iter()
        .map(|((action, activity), duration)| StepPart {
            action: action.map(|action| trace.names.text(action).to_owned()),
            activity: *activity,
            duration_ns: *duration,
        })
        .collect();
    parts.sort_by(|one, other| {
        let key = |part: &StepPart| (std::cmp::Reverse(part.duration_ns), part.activity);
        key(one).cmp(&key(other)).then_with(|| one.action.cmp(&other.action))
    });
    parts
}
