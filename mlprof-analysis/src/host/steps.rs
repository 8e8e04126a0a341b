//! Steps and their time breakdown.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::answers::{Activity, StepBreakdown, StepPart};
use crate::classify::Meanings;
use crate::device::window::Window;
use crate::sweep;
use crate::trace::{Category, FlowKind, Name, Slice, Trace, TrackKind};

/// A step, or the whole trace if it has no steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) number: Option<u64>,
    /// `true` for a batch of an inference server. Its number is its position among the batches.
    pub(crate) is_batch: bool,
    /// Track of the thread that ran the step.
    pub(crate) track: usize,
    /// Start and end of each part of the step, in order of time. A step has several parts if
    /// recording paused within it, for example for a validation.
    pub(crate) parts: Vec<(i64, i64)>,
}

impl Step {
    pub(crate) fn start(&self) -> i64 {
        self.parts.first().map_or(0, |(start, _)| *start)
    }

    pub(crate) fn end(&self) -> i64 {
        self.parts.last().map_or(0, |(_, end)| *end)
    }

    /// Returns the duration without pauses, in nanoseconds.
    pub(crate) fn duration(&self) -> i64 {
        self.parts.iter().map(|(start, end)| end - start).sum()
    }
}

/// Lookup of the step at a moment.
pub(crate) struct StepOf(Vec<(i64, i64, u64)>);

impl StepOf {
    pub(crate) fn new(steps: &[Step]) -> Self {
        let parts = steps.iter().filter_map(|step| Some((step.number?, &step.parts)));
        let parts = parts.flat_map(|(number, parts)| {
            parts.iter().map(move |(start, end)| (*start, *end, number))
        });
        let mut parts: Vec<_> = parts.collect();
        parts.sort_unstable();
        Self(parts)
    }

    /// Returns the number of the step at a moment.
    pub(crate) fn number(&self, moment: i64) -> Option<u64> {
        let after = self.0.partition_point(|(from, ..)| *from <= moment);
        let (_, end, number) = self.0.get(after.checked_sub(1)?)?;
        (moment < *end).then_some(*number)
    }
}

/// Returns all steps in order of time. Equal step numbers on one thread form one step.
///
/// Without steps, the result is the batches of an inference server. Without batches, it is the
/// whole trace on its main thread.
pub(crate) fn find(trace: &Trace, meanings: &Meanings) -> Vec<Step> {
    let mut found = Vec::new();
    let mut batches = Vec::new();
    // For each slice, this is `true` if it is a batch or nested in one. Most traces have no
    // batches.
    let in_batch = match trace.slices.iter().any(|slice| meanings.is_batch(slice)) {
        true => trace.inherited(false, |_, slice, around| around || meanings.is_batch(slice)),
        false => Vec::new(),
    };
    for slice in &trace.slices {
        let track = &trace.tracks[slice.track as usize];
        if track.kind != TrackKind::Thread {
            continue;
        }
        let track = track.overlaps.unwrap_or(slice.track) as usize;
        if let Some(number) = meanings.step(slice) {
            found.push((slice.start, slice.end(), track, number));
        } else if meanings.is_batch(slice) && !slice.parent().is_some_and(|around| in_batch[around])
        {
            batches.push((slice.start, slice.end(), track));
        }
    }
    found.sort_unstable();
    let mut steps: Vec<Step> = Vec::new();
    let mut known: FxHashMap<(usize, u64), usize> = FxHashMap::default();
    for (start, end, track, number) in found {
        let place = *known.entry((track, number)).or_insert(steps.len());
        match steps.get_mut(place) {
            Some(step) => match step.parts.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => step.parts.push((start, end)),
            },
            None => steps.push(Step {
                number: Some(number),
                is_batch: false,
                track,
                parts: vec![(start, end)],
            }),
        }
    }
    if steps.is_empty() {
        batches.sort_unstable();
        let batch = |(number, (start, end, track))| Step {
            number: Some(number),
            is_batch: true,
            track,
            parts: vec![(start, end)],
        };
        steps.extend((0..).zip(batches).map(batch));
    }
    if steps.is_empty() {
        steps.extend(whole(trace, meanings));
    }
    steps
}

fn whole(trace: &Trace, meanings: &Meanings) -> Option<Step> {
    let parts = without_pauses(trace, vec![trace.window()?]);
    let track = main_thread(trace, meanings)?;
    Some(Step { number: None, is_batch: false, track, parts })
}

/// Returns the thread that did most work. The criteria are, in this order:
///
/// - It does not run backward ops for another thread.
/// - It launched the most device work.
/// - It spent the most time in ops and calls.
/// - It recorded the most time.
///
/// Python frames do not count as work, because a sleeping thread also has one. The first of several
/// equal threads is returned.
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
    // Autograd's threads work for another thread.
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
    let in_work = trace.inherited(false, |_, slice, around| around || works(slice));
    let is_in_work = |slice: &Slice| slice.parent().is_some_and(|around| in_work[around]);
    let key = |place: usize| {
        let slices = trace.of_track(&trace.tracks[place]);
        let sum = |is_counted: &dyn Fn(&&Slice) -> bool| {
            slices.iter().filter(is_counted).map(|slice| slice.duration).sum::<i64>()
        };
        (
            !is_backward.contains(&place),
            launched.get(&place).copied().unwrap_or(0),
            sum(&|slice| works(slice) && !is_in_work(slice)),
            sum(&|slice| slice.depth == 0),
        )
    };
    let threads = trace.tracks_of(TrackKind::Thread).map(|(place, _)| (place, key(place)));
    let best = threads.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(place, _)| place)
}

/// Returns the time of all steps, or of the whole trace if it has no steps or only batches. A
/// server also works between batches, and it returns from them before the device has finished.
///
/// Recording pauses are excluded. A gap between two parts of one step is a pause, and any other gap
/// between steps belongs to the window.
pub(crate) fn window(trace: &Trace, steps: &[Step]) -> Window {
    let steps = steps.iter().filter(|step| !step.is_batch);
    let parts = steps.flat_map(|step| step.parts.iter().map(|part| (*part, step.number)));
    let mut parts: Vec<((i64, i64), Option<u64>)> = parts.collect();
    parts.sort_unstable();
    let mut window: Vec<(i64, i64)> = Vec::new();
    let mut previous = None;
    for ((start, end), number) in parts {
        match window.last_mut() {
            Some(last) if start <= last.1 || previous != Some(number) => last.1 = last.1.max(end),
            _ => window.push((start, end)),
        }
        previous = Some(number);
    }
    if window.is_empty() {
        window.extend(trace.window());
    }
    Window::new(without_pauses(trace, window))
}

/// Returns the stretches of time without recording pauses.
fn without_pauses(trace: &Trace, mut stretches: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    for (from, to) in trace.info.pauses.iter().filter(|(from, to)| from < to) {
        let apart = stretches
            .into_iter()
            .flat_map(|(start, end)| [(start, end.min(*from)), (start.max(*to), end)]);
        stretches = apart.filter(|(start, end)| start < end).collect();
    }
    stretches
}

/// Time in nanoseconds by enclosing action and activity, before names are resolved to text.
pub(crate) type Parts = FxHashMap<(Option<Name>, Activity), i64>;

/// Returns the time breakdown of a step, and the time in which the loop waited for data, in
/// nanoseconds. `busy` is the time in which any device worked. It can continue after the last slice
/// of the thread.
pub(crate) fn parts(
    trace: &Trace,
    meanings: &Meanings,
    busy: &Window,
    step: &Step,
) -> (Parts, i64) {
    let (mut parts, mut data) = (Parts::default(), 0);
    for part in &step.parts {
        sweep::innermost(trace, step.track, *part, |start, end, innermost| {
            let mut add = |action: Option<Name>, activity: Activity, duration: i64| {
                if duration > 0 {
                    *parts.entry((action, activity)).or_default() += duration;
                }
            };
            let worked = if innermost.is_none() { busy.clip(start, end) } else { 0 };
            add(None, Activity::DeviceWorks, worked);
            let action = innermost.and_then(|place| meanings.action(place));
            let action = action.map(|place| trace.slices[place].name);
            add(action, meanings.activity(trace, innermost), end - start - worked);
            if innermost.is_some_and(|place| meanings.is_in_data(place)) {
                data += end - start;
            }
        });
    }
    (parts, data)
}

/// Returns the time in which the loop waited for data in a step, in nanoseconds.
pub(crate) fn waiting_for_data(trace: &Trace, meanings: &Meanings, step: &Step) -> i64 {
    let no_device = Window::new(Vec::new());
    parts(trace, meanings, &no_device, step).1
}

/// Returns the breakdown of a step.
pub(crate) fn breakdown(
    trace: &Trace,
    step: &Step,
    begin: i64,
    (parts, data): &(Parts, i64),
) -> StepBreakdown {
    StepBreakdown {
        number: step.number,
        thread: trace.track_name(step.track),
        start_ns: step.start() - begin,
        duration_ns: step.duration(),
        waiting_for_data_ns: *data,
        parts: with_texts(trace, parts),
    }
}

/// Resolves the names of step parts and sorts the parts, longest first.
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
