//! Threads whose slices cross each other, as spans of asynchronous code do.
//!
//! Crossing slices are on several tracks of one thread. Each moment belongs to the open slice that
//! began last. A step is the innermost slice only if all other open slices enclose the step.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::open_slices::{OpenSlices, Span};
use super::{Category, STEP, Trace, TrackKind};

/// Consecutive stretches of a thread's time: start, end, and index of the innermost slice.
pub(crate) type Stretches = Vec<(i64, i64, u32)>;

/// Threads of a trace on which slices cross.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// Stretches by the first track of each thread.
    threads: FxHashMap<u32, Stretches>,
    /// Indices of all slices, parents first. Empty if no slices cross.
    order: Vec<u32>,
    /// Time of crossing slices in nanoseconds.
    pub(super) duration: i64,
}

impl Crossings {
    /// Returns the stretches of a thread. `None` if its slices only nest.
    pub(crate) fn of_track(&self, track: usize) -> Option<&Stretches> {
        self.threads.get(&(track as u32))
    }

    /// Returns the indices of all `count` slices, parents before children.
    pub(crate) fn parents_first(&self, count: usize) -> impl Iterator<Item = usize> {
        let in_order = (0..count).take(if self.order.is_empty() { count } else { 0 });
        in_order.chain(self.order.iter().map(|place| *place as usize))
    }
}

/// Finds the threads on which slices cross. It sets the self times of their slices, and their
/// parents on other tracks of the same thread.
pub(super) fn tie(trace: &mut Trace) {
    let mut lanes: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (number, track) in (0_u32..).zip(&trace.tracks) {
        if let Some(base) = track.overlaps.filter(|_| track.kind == TrackKind::Thread) {
            lanes.entry(base).or_insert_with(|| vec![base]).push(number);
        }
    }
    if lanes.is_empty() {
        return;
    }
    let is_step = trace.names.map(|name| name.starts_with(STEP));
    let mut crossings = Crossings::default();
    let mut places_of_threads = FxHashMap::default();
    for (base, lanes) in lanes {
        let of_lane = |lane: &u32| trace.tracks[*lane as usize].slices.clone();
        let mut places: Vec<u32> =
            lanes.iter().flat_map(of_lane).map(|place| place as u32).collect(); // fewer than 2^32
        places.sort_by_key(|place| {
            let slice = &trace.slices[*place as usize];
            (slice.start, Reverse(slice.duration), *place)
        });
        let spans = places.iter().map(|place| {
            let slice = &trace.slices[*place as usize];
            let is_annotation = slice.category == Category::UserAnnotation;
            Span { end: slice.end(), is_step: is_annotation && is_step[slice.name] }
        });
        let mut open = OpenSlices::new(spans.collect());
        let mut stretches = Stretches::new();
        for (position, place) in (0_u32..).zip(&places) {
            let slice = &mut trace.slices[*place as usize];
            open.until(slice.start, |from, to, innermost| {
                add(&mut stretches, from, to, places[innermost as usize]);
            });
            if !open.is_step(position)
                && let Some(around) = open.around(slice.end())
            {
                slice.parent = places[around as usize];
            }
            open.open(position);
        }
        open.until(i64::MAX, |from, to, innermost| {
            add(&mut stretches, from, to, places[innermost as usize]);
        });
        let stretches = without_pauses(stretches, &trace.info.pauses);
        for place in &places {
            trace.slices[*place as usize].self_duration = 0;
        }
        for (from, to, place) in &stretches {
            let slice = &mut trace.slices[*place as usize];
            slice.self_duration += to - from;
            crossings.duration += if slice.track == base { 0 } else { to - from };
        }
        crossings.threads.insert(base, stretches);
        places_of_threads.insert(base, places);
    }
    for (number, track) in (0_u32..).zip(&trace.tracks) {
        let base = track.overlaps.unwrap_or(number);
        match places_of_threads.remove(&base) {
            Some(places) => crossings.order.extend(places),
            None if crossings.threads.contains_key(&base) => {}
            None => crossings.order.extend(track.slices.clone().map(|place| place as u32)),
        }
    }
    trace.crossings = crossings;
}

/// Removes recording pauses from the stretches. `pauses` must be sorted.
fn without_pauses(stretches: Stretches, pauses: &[(i64, i64)]) -> Stretches {
    if pauses.is_empty() {
        return stretches;
    }
    let mut recorded = Stretches::new();
    for (mut from, to, place) in stretches {
        let first = pauses.partition_point(|(_, end)| *end <= from);
        for (start, end) in pauses[first..].iter().take_while(|(start, _)| *start < to) {
            if from < *start {
                recorded.push((from, *start, place));
            }
            from = from.max(*end);
        }
        if from < to {
            recorded.push((from, to, place));
        }
    }
    recorded
}

fn add(stretches: &mut Stretches, from: i64, to: i64, place: u32) {
    match stretches.last_mut() {
        Some((_, end, last)) if (*end, *last) == (from, place) => *end = to,
        _ => stretches.push((from, to, place)),
    }
}
