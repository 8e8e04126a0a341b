//! Threads whose slices cross each other, as spans of asynchronous code do.
//!
//! Such slices stand on several tracks of one thread. A moment belongs to the slice that began last
//! of all that are open then. A step is the innermost one only where nothing else is open, except
//! slices around the step.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::open_slices::{OpenSlices, Span};
use super::{Category, STEP, Trace, TrackKind};

/// Stretches of a thread's time in their order: a beginning, an end, and the place of the innermost
/// slice.
pub(crate) type Stretches = Vec<(i64, i64, u32)>;

/// The threads of a trace on which slices cross.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// By the thread's first track.
    threads: FxHashMap<u32, Stretches>,
    /// Places of all slices, parents first; empty where no slices cross.
    order: Vec<u32>,
    /// Time of slices that cross others, in nanoseconds.
    pub(super) duration: i64,
}

impl Crossings {
    /// The stretches of a thread; `None` if its slices are only inside of each other.
    pub(crate) fn of_track(&self, track: usize) -> Option<&Stretches> {
        self.threads.get(&(track as u32))
    }

    /// Places of all slices of which there are `count`, parents before what is inside.
    pub(crate) fn parents_first(&self, count: usize) -> impl Iterator<Item = usize> {
        let in_order = (0..count).take(if self.order.is_empty() { count } else { 0 });
        in_order.chain(self.order.iter().map(|place| *place as usize))
    }
}

/// Finds the threads on which slices cross. Gives their slices the time that belongs to them, and
/// the parents that are on another track of the thread.
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

/// Leaves out the time in which nothing was recorded. `pauses`: in order.
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
