//! Steps, and what their time went into.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::answers::{Activity, StepBreakdown, StepPart};
use crate::device::window::Window;
use crate::meaning::Meanings;
use crate::sweep;
use crate::trace::{Category, FlowKind, Name, Slice, Trace, TrackKind};

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
        steps.extend(whole(trace, meanings));
    }
    steps
}

fn whole(trace: &Trace, meanings: &Meanings) -> Option<Step> {
    let (start, end) = trace.window()?;
    let track = main_thread(trace, meanings)?;
    Some(Step { number: None, track, start, end })
}

/// The thread that did most: that launched most work of devices, else that spent most time in ops and calls,
/// else that recorded most. Frames of Python are no work: a thread that sleeps has one, too. Of threads that
/// did as much it is the first one.
fn main_thread(trace: &Trace, meanings: &Meanings) -> Option<usize> {
    let thread = |track: u32| trace.tracks[track as usize].overlaps.unwrap_or(track) as usize;
    let mut launched: FxHashMap<usize, i64> = FxHashMap::default();
    for of in trace.correlations().values() {
        let work = of.device.iter().map(|place| &trace.slices[*place as usize]);
        let work = work.filter(|slice| slice.category.is_device_work());
        if let Some(call) = of.call {
            let of_thread = launched.entry(thread(trace.slices[call as usize].track)).or_default();
            *of_thread += work.map(|slice| slice.duration).sum::<i64>();
        }
    }
    // Autograd's threads work for another one.
    let is_backward: FxHashSet<usize> = trace
        .flows
        .iter()
        .filter(|flow| flow.kind == FlowKind::ForwardBackward)
        .map(|flow| [flow.from, flow.to].map(|place| thread(trace.slices[place as usize].track)))
        .filter_map(|[from, to]| (from != to).then_some(to))
        .collect();
    let works = |slice: &Slice| {
        let is_call = slice.category.is_runtime() && !meanings.waits_for_device(slice);
        slice.category == Category::CpuOp || is_call
    };
    let key = |place: usize| {
        let slices = trace.of_track(&trace.tracks[place]).iter();
        let outermost =
            slices.clone().filter(|slice| works(slice) && !trace.around(slice).any(works));
        let recorded = slices.filter(|slice| slice.depth == 0);
        let sum = |slices: &mut dyn Iterator<Item = &Slice>| {
            slices.map(|slice| slice.duration).sum::<i64>()
        };
        (
            !is_backward.contains(&place),
            launched.get(&place).copied().unwrap_or(0),
            sum(&mut outermost.into_iter()),
            sum(&mut recorded.into_iter()),
        )
    };
    let threads = trace.tracks_of(TrackKind::Thread).map(|(place, _)| (place, key(place)));
    let best = threads.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(place, _)| place)
}

/// The time of all steps, or all of a trace that has none. A gap between two steps is part of it unless
/// recording paused there.
pub(crate) fn window(trace: &Trace, steps: &[Step]) -> Window {
    let Some(first) = steps.first() else {
        return Window::new(trace.window().into_iter().collect());
    };
    let mut begun: Option<Vec<i64>> = None;
    let mut parts = vec![(first.start, first.end)];
    let mut previous = first;
    for step in &steps[1..] {
        let gap = (previous.end, step.start);
        let is_pause = gap.0 < gap.1
            && (previous.number == step.number
                || nothing_begins(begun.get_or_insert_with(|| host_starts(trace)), gap));
        match parts.last_mut() {
            Some(last) if !is_pause => last.1 = last.1.max(step.end),
            _ => parts.push((step.start, step.end)),
        }
        if step.end > previous.end {
            previous = step;
        }
    }
    Window::new(parts)
}

/// When slices of threads begin, in order.
fn host_starts(trace: &Trace) -> Vec<i64> {
    let threads = trace.tracks.iter().filter(|track| track.kind == TrackKind::Thread);
    let slices = threads.flat_map(|track| trace.of_track(track));
    let mut starts: Vec<i64> = slices.map(|slice| slice.start).collect();
    starts.sort_unstable();
    starts
}

/// Whether no thread begins anything in a gap: nothing is recorded while recording pauses.
fn nothing_begins(starts: &[i64], (from, to): (i64, i64)) -> bool {
    let first = starts.partition_point(|start| *start < from);
    starts.get(first).is_none_or(|start| *start >= to)
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
