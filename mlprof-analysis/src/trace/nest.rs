//! Nesting of slices.

use std::cmp::Reverse;

use super::room::Room;
use super::{NONE, Slice};

/// Sorts the slices of a track and distributes crossing slices to further tracks, so that slices on
/// each track either nest or are disjoint. If slices have equal times, the first one in the file
/// encloses the others.
///
/// Of two crossing slices, the later one is moved unless it is a step. The slices of a step stay
/// nested in it on the first track, even if other slices cross the step.
pub(super) fn lanes(mut slices: Vec<Slice>, is_step: impl Fn(&Slice) -> bool) -> Vec<Vec<Slice>> {
    slices.sort_by_key(|slice| (slice.start, Reverse(slice.duration)));
    let steps = apart(slices.iter().filter(|slice| is_step(slice)));
    // In most traces no slices cross, and then none is moved.
    let mut open: Vec<i64> = Vec::new();
    let first = slices.iter().position(|slice| {
        while open.last().is_some_and(|end| *end <= slice.start) {
            open.pop();
        }
        let crosses = open.last().is_some_and(|end| *end < slice.end()) || ends_in(&steps, slice);
        if !crosses {
            open.push(slice.end());
        }
        crosses
    });
    let Some(first) = first else { return vec![slices] };
    let rest = slices.split_off(first);
    let mut lanes: Vec<Vec<Slice>> = vec![slices];
    let mut room = Room::default();
    for end in open {
        room.add(0, end);
    }
    for slice in rest {
        room.close(slice.start);
        let lane = room.first(usize::from(ends_in(&steps, &slice)), slice.end());
        room.add(lane, slice.end());
        if lanes.len() <= lane {
            lanes.resize_with(lane + 1, Vec::new);
        }
        lanes[lane].push(slice);
    }
    lanes
}

/// Returns the spans of the steps that do not overlap an earlier one.
fn apart<'slices>(steps: impl Iterator<Item = &'slices Slice>) -> Vec<(i64, i64)> {
    let mut apart: Vec<(i64, i64)> = Vec::new();
    for step in steps {
        if apart.last().is_none_or(|(_, end)| *end <= step.start) {
            apart.push((step.start, step.end()));
        }
    }
    apart
}

/// Returns `true` if a slice begins before one of the steps and ends in it.
fn ends_in(steps: &[(i64, i64)], slice: &Slice) -> bool {
    let begun = steps.partition_point(|(start, _)| *start < slice.end());
    let last = begun.checked_sub(1).map(|last| steps[last]);
    last.is_some_and(|(start, end)| slice.start < start && slice.end() < end)
}

/// Sets the parent, depth and self time of each slice. The slices belong to one track, which begins
/// at index `first` of all slices.
pub(super) fn tie(slices: &mut [Slice], first: usize) {
    let mut open: Vec<u32> = Vec::new();
    for place in 0..slices.len() {
        let (start, duration) = (slices[place].start, slices[place].duration);
        while open.last().is_some_and(|around| slices[*around as usize].end() <= start) {
            open.pop();
        }
        slices[place].self_duration = duration;
        slices[place].depth = u16::try_from(open.len()).unwrap_or(u16::MAX);
        slices[place].parent = match open.last() {
            Some(around) => {
                slices[*around as usize].self_duration -= duration;
                first as u32 + *around // there are fewer than 2^32
            }
            None => NONE,
        };
        open.push(place as u32);
    }
}
