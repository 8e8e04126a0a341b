//! Innermost open slice of a thread over time.

use std::cell::OnceCell;

use crate::trace::{Slice, Stretches, Trace};

/// Divides the time from `from` to `to` by the innermost open slice of a thread or stream.
///
/// `track` is the first track of the thread. `part` receives the start and end of each part, and
/// the index of its innermost slice or `None` if no slice is open. The parts are in order, none is
/// empty, and they add up to the whole time.
pub(crate) fn innermost(
    trace: &Trace,
    track: usize,
    (from, to): (i64, i64),
    mut part: impl FnMut(i64, i64, Option<usize>),
) {
    if let Some(stretches) = trace.crossing(track) {
        return of_stretches(stretches, (from, to), part);
    }
    let places = trace.tracks[track].slices.clone();
    let slices = &trace.slices[places.clone()];
    let first = places.start + slices.partition_point(|slice| slice.start < from);
    // This is the innermost open slice. Its parents are the other open slices.
    let mut open = first.checked_sub(1).filter(|place| places.contains(place));
    while let Some(place) = open
        && trace.slices[place].end() <= from
    {
        open = trace.slices[place].parent();
    }
    let mut now = from;
    let mut until = |now: &mut i64, time: i64, innermost: Option<usize>| {
        let time = time.min(to);
        if time > *now {
            part(*now, time, innermost);
            *now = time;
        }
    };
    let began_inside = (first..places.end).take_while(|place| trace.slices[*place].start < to);
    for place in began_inside {
        let start = trace.slices[place].start;
        while let Some(innermost) = open
            && trace.slices[innermost].end() <= start
        {
            until(&mut now, trace.slices[innermost].end(), Some(innermost));
            open = trace.slices[innermost].parent();
        }
        until(&mut now, start, open);
        open = Some(place);
    }
    while let Some(innermost) = open
        && now < to
    {
        until(&mut now, trace.slices[innermost].end(), Some(innermost));
        open = trace.slices[innermost].parent();
    }
    until(&mut now, to, None);
}

fn of_stretches(
    stretches: &[(i64, i64, u32)],
    (from, to): (i64, i64),
    mut part: impl FnMut(i64, i64, Option<usize>),
) {
    let first = stretches.partition_point(|(_, end, _)| *end <= from);
    let mut now = from;
    for (start, end, place) in stretches[first..].iter().take_while(|(start, ..)| *start < to) {
        let (start, end) = ((*start).max(from), (*end).min(to));
        if now < start {
            part(now, start, None);
        }
        part(start, end, Some(*place as usize));
        now = end;
    }
    if now < to {
        part(now, to, None);
    }
}

/// Index for finding the innermost open slice of any thread at any moment. It scans a thread once,
/// at the first query for that thread.
pub(crate) struct Innermost<'a> {
    trace: &'a Trace,
    /// Stretches of each track, computed on demand.
    stretches: Vec<OnceCell<Stretches>>,
}

impl<'a> Innermost<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self { trace, stretches: trace.tracks.iter().map(|_| OnceCell::new()).collect() }
    }

    /// Returns the innermost slice open on a thread just before a moment, and the time since when
    /// it has been the innermost. This time is the start of the part that [`innermost`] would end
    /// at that moment.
    pub(crate) fn before(&self, track: usize, time: i64) -> (Option<usize>, i64) {
        let stretches = match self.trace.crossing(track) {
            Some(stretches) => stretches,
            None => self.stretches[track].get_or_init(|| of_track(self.trace, track)),
        };
        let begun = stretches.partition_point(|(start, ..)| *start < time);
        let Some(last) = begun.checked_sub(1) else { return (None, i64::MIN) };
        let (start, end, place) = stretches[last];
        match end >= time {
            true => (Some(place as usize), start),
            false => (None, end),
        }
    }
}

/// Returns the stretches of a track in order. Adjacent stretches have different slices.
fn of_track(trace: &Trace, track: usize) -> Stretches {
    let slices = trace.of_track(&trace.tracks[track]);
    let first = slices.first().map_or(0, |slice| slice.start);
    let last = slices.iter().map(Slice::end).max().unwrap_or(first);
    let mut stretches = Stretches::new();
    innermost(trace, track, (first, last), |start, end, place| {
        stretches.extend(place.map(|place| (start, end, place as u32))); // fewer than 2^32
    });
    stretches
}
