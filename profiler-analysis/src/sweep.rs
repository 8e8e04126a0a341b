//! What a thread does from one moment to another.

use crate::trace::Trace;

/// Divides the time from `from` to `to` up by what is innermost on a thread, whose first track it
/// is, or on a stream: each part has its beginning and its end, and the place of the slice; `None`
/// where there is none. The parts are in order, none is empty, and they add up.
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
    // What is open at the beginning, the innermost last.
    let mut open = Vec::new();
    let mut around = first.checked_sub(1).filter(|place| places.contains(place));
    while let Some(place) = around {
        if trace.slices[place].end() > from {
            open.push(place);
        }
        around = trace.slices[place].parent();
    }
    open.reverse();
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
        while let Some(innermost) = open.last().copied()
            && trace.slices[innermost].end() <= start
        {
            until(&mut now, trace.slices[innermost].end(), Some(innermost));
            open.pop();
        }
        until(&mut now, start, open.last().copied());
        open.push(place);
    }
    while let Some(innermost) = open.pop() {
        until(&mut now, trace.slices[innermost].end(), Some(innermost));
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

/// The innermost slice that is open just before a moment, and since when nothing else has been: the
/// beginning of the part that [`innermost`] would end there.
pub(crate) fn before(trace: &Trace, track: usize, time: i64) -> (Option<usize>, i64) {
    if let Some(stretches) = trace.crossing(track) {
        let begun = stretches.partition_point(|(start, ..)| *start < time);
        let Some(last) = begun.checked_sub(1) else { return (None, i64::MIN) };
        let (start, end, place) = stretches[last];
        return match end >= time {
            true => (Some(place as usize), start),
            false => (None, end),
        };
    }
    let places = trace.tracks[track].slices.clone();
    let slices = &trace.slices[places.clone()];
    let begun = places.start + slices.partition_point(|slice| slice.start < time);
    let mut since = i64::MIN;
    let mut place = begun.checked_sub(1).filter(|place| places.contains(place));
    while let Some(candidate) = place {
        let slice = &trace.slices[candidate];
        if slice.end() >= time {
            return (Some(candidate), since.max(slice.start));
        }
        since = since.max(slice.end());
        place = slice.parent();
    }
    (None, since)
}
