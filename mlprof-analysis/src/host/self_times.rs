//! Times by name and by module.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::answers::{ModuleTimes, NameTimes};
use crate::classify::Meanings;
use crate::trace::{Category, Correlated, FlowKind, Name, Slice, Trace, TrackKind};

#[derive(Default)]
struct Sums {
    calls: u64,
    total: i64,
    own: i64,
    backward: i64,
    device: i64,
}

/// Returns all slices of threads with their indices.
pub(crate) fn on_threads(trace: &Trace) -> impl Iterator<Item = (usize, &Slice)> {
    let threads = trace.tracks.iter().filter(|track| track.kind == TrackKind::Thread);
    threads.flat_map(|track| track.slices.clone().map(|place| (place, &trace.slices[place])))
}

/// Returns for each slice whether a slice of the same name and category encloses it. Each slice is
/// visited once, regardless of the nesting depth.
pub(crate) fn inside_their_likes(trace: &Trace) -> Vec<bool> {
    let slices = &trace.slices;
    // These are the first child and the next sibling of each slice.
    let (mut inside, mut next) = (vec![None; slices.len()], vec![None; slices.len()]);
    for (place, slice) in slices.iter().enumerate().rev() {
        if let Some(around) = slice.parent() {
            next[place] = inside[around].replace(place);
        }
    }
    let mut open: FxHashMap<(Category, Name), u32> = FxHashMap::default();
    let mut found = vec![false; slices.len()];
    let outermost = (0..slices.len()).filter(|place| slices[*place].parent().is_none());
    for first in outermost {
        let mut entered = Some(first);
        while let Some(place) = entered {
            let count = open.entry((slices[place].category, slices[place].name)).or_default();
            found[place] = *count > 0;
            *count += 1;
            entered = inside[place].or_else(|| {
                // The walk leaves slices until one of them has a next sibling.
                std::iter::successors(Some(place), |left| slices[*left].parent()).find_map(|left| {
                    if let Some(count) = open.get_mut(&(slices[left].category, slices[left].name)) {
                        *count -= 1;
                    }
                    next[left]
                })
            });
        }
    }
    found
}

/// Returns the device time of each launch call.
pub(crate) fn device_times<'a>(
    trace: &'a Trace,
    correlations: &'a FxHashMap<u32, Correlated>,
) -> impl Iterator<Item = (usize, i64)> + 'a {
    correlations.values().filter_map(|of| {
        let work = of.device.iter().map(|place| &trace.slices[*place as usize]);
        let work = work.filter(|slice| slice.category.is_device_work());
        Some((of.call? as usize, work.map(|slice| slice.duration).sum()))
    })
}

/// Returns the times of thread slices by category and name, longest self time first. `is_inside` is
/// the result of [`inside_their_likes`].
pub(crate) fn by_name(
    trace: &Trace,
    meanings: &Meanings,
    correlations: &FxHashMap<u32, Correlated>,
    is_inside: &[bool],
) -> Vec<NameTimes> {
    let mut sums: FxHashMap<(Category, Name), Sums> = FxHashMap::default();
    for (place, slice) in on_threads(trace) {
        let of = sums.entry((slice.category, slice.name)).or_default();
        of.calls += 1;
        if !is_inside[place] {
            of.total += slice.duration;
        }
        of.own += slice.self_duration;
    }
    for (call, time) in device_times(trace, correlations) {
        let of = &trace.slices[meanings.op(call).unwrap_or(call)];
        if let Some(of) = sums.get_mut(&(of.category, of.name)) {
            of.device += time;
        }
    }
    let mut rows: Vec<NameTimes> = sums
        .into_iter()
        .map(|((category, name), of)| NameTimes {
            category,
            name: trace.names.text(name).to_owned(),
            calls: of.calls,
            total_ns: of.total,
            self_ns: of.own,
            device_ns: of.device,
        })
        .collect();
    rows.sort_by(|one, other| {
        let key = |row: &NameTimes| (Reverse(row.self_ns), Reverse(row.device_ns), row.category);
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    rows
}

/// Returns the times of modules, ordered by self time plus device time, longest first. `is_inside`
/// is the result of [`inside_their_likes`].
pub(crate) fn by_module(
    trace: &Trace,
    meanings: &Meanings,
    correlations: &FxHashMap<u32, Correlated>,
    is_inside: &[bool],
) -> Vec<ModuleTimes> {
    let mut sums: FxHashMap<Name, Sums> = FxHashMap::default();
    let is_backward = backward(trace);
    for (place, slice) in on_threads(trace) {
        let Some(module) = meanings.module(place) else { continue };
        let of = sums.entry(module).or_default();
        if meanings.is_module(slice) {
            of.calls += 1;
            if !is_inside[place] {
                of.total += slice.duration;
            }
        }
        of.own += slice.self_duration;
        of.backward += if is_backward[place] { slice.self_duration } else { 0 };
    }
    for (call, time) in device_times(trace, correlations) {
        if let Some(module) = meanings.module(call) {
            sums.entry(module).or_default().device += time;
        }
    }
    let mut rows: Vec<ModuleTimes> = sums
        .into_iter()
        .map(|(module, of)| ModuleTimes {
            module: trace.names.text(module).to_owned(),
            calls: of.calls,
            total_ns: of.total,
            self_ns: of.own,
            backward_ns: of.backward,
            device_ns: of.device,
        })
        .collect();
    rows.sort_by(|one, other| {
        let key = |row: &ModuleTimes| Reverse(row.self_ns + row.device_ns);
        key(one).cmp(&key(other)).then_with(|| one.module.cmp(&other.module))
    });
    rows
}

/// Returns for each slice whether it is a backward op or nested in one.
fn backward(trace: &Trace) -> Vec<bool> {
    let mut is_backward = vec![false; trace.slices.len()];
    for flow in trace.flows.iter().filter(|flow| flow.kind == FlowKind::ForwardBackward) {
        is_backward[flow.to as usize] = true;
    }
    for place in trace.parents_first() {
        if let Some(around) = trace.slices[place].parent() {
            is_backward[place] |= is_backward[around];
        }
    }
    is_backward
}
