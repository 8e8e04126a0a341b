//! Assembly of tracks with sorted slices, and of flow arrows between slices.

use rustc_hash::FxHashMap;

use super::raw::{FlowEnd, PlaceId, RawTrack, number_in};
use super::{Category, Flow, FlowKind, Name, STEP, Slice, Trace, Track, TrackKind, nest};

/// Suffix of the name of a track that contains slices crossing another track.
const OVERLAPPING: &str = " (overlapping)";

/// Replaces a negative thread number in a name by its unsigned hexadecimal form. PyTorch writes the
/// lower half of an address as a signed number, so `thread -549452224 (python)` becomes `thread
/// 0xdf400640 (python)`.
fn without_sign(name: String) -> String {
    let unsigned = || {
        let rest = name.strip_prefix("thread -")?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, rest) = rest.split_at(end);
        let number = digits.parse::<i64>().ok()?.checked_neg()?;
        let number = match i32::try_from(number) {
            Ok(number) => number.cast_unsigned().into(),
            Err(_) => number.cast_unsigned(),
        };
        Some(format!("thread {number:#x}{rest}"))
    };
    unsigned().unwrap_or(name)
}

/// First track of each process, name and kind.
pub(super) type KnownTracks = FxHashMap<(Name, u32, TrackKind), u32>;

pub(super) fn add_track(
    trace: &mut Trace,
    raw: &RawTrack,
    kind: TrackKind,
    slices: Vec<Slice>,
    places: &mut [u32],
    known: &mut KnownTracks,
) {
    let name = trace.names.text(raw.name).to_owned();
    let own = match (name.is_empty(), &raw.id, kind) {
        (false, ..) => without_sign(name),
        (true, PlaceId::Number(number), TrackKind::Stream) => format!("stream {number}"),
        (true, PlaceId::Number(number), _) => without_sign(format!("thread {number}")),
        (true, PlaceId::Text(text), _) => text.to_string(),
    };
    // The recorder may have separated crossing slices itself.
    let crossed = own
        .strip_suffix(OVERLAPPING)
        .and_then(|crossed| known.get(&(trace.names.find(crossed)?, raw.process, kind)).copied());
    let number = match (kind, raw.id.number()) {
        // XProf numbers its tracks consecutively and puts the stream number into the name.
        (TrackKind::Stream, Some(_)) if own.starts_with("Stream #") => {
            number_in(own.split('(').next().unwrap_or_default())
        }
        (TrackKind::Stream, None) => number_in(&own),
        (_, number) => number,
    };
    let base = crossed.unwrap_or(trace.tracks.len() as u32);
    let is_step = |slice: &Slice| {
        slice.category == Category::UserAnnotation && trace.names.text(slice.name).starts_with(STEP)
    };
    for (lane, mut slices) in nest::lanes(slices, is_step).into_iter().enumerate() {
        let (place, first) = (trace.tracks.len() as u32, trace.slices.len());
        if !places.is_empty() {
            let numbers = slices.iter().map(|slice| slice.parent as usize);
            numbers.zip(first as u32..).for_each(|(number, place)| places[number] = place);
        }
        nest::tie(&mut slices, first);
        slices.iter_mut().for_each(|slice| slice.track = place);
        let name = match lane == 0 || crossed.is_some() {
            true => trace.names.intern(&own),
            false => trace.names.intern(&format!("{own}{OVERLAPPING}")),
        };
        trace.slices.append(&mut slices);
        known.entry((name, raw.process, kind)).or_insert(place);
        trace.tracks.push(Track {
            process: raw.process,
            number,
            name,
            kind,
            overlaps: (place != base).then_some(base),
            slices: first..trace.slices.len(),
            sort_index: raw.sort_index.unwrap_or(i64::MAX),
        });
    }
}

/// Returns the arrows whose ends are both on slices.
pub(super) fn flows(trace: &Trace, mut ends: Vec<FlowEnd>, new_numbers: &[u32]) -> Vec<Flow> {
    ends.sort_by_key(|end| (end.kind as u8, end.id, end.is_end, end.time));
    let places = places(trace, &ends, new_numbers);
    let mut flows = Vec::new();
    let mut from: Option<(FlowEnd, u32)> = None;
    for (end, at) in ends.into_iter().zip(places) {
        if !end.is_end {
            from = at.map(|at| (end, at));
        } else if let (Some((start, from)), Some(to)) = (from, at)
            && (start.kind, start.id) == (end.kind, end.id)
        {
            flows.push(Flow { kind: end.kind, from, to });
        }
    }
    flows
}

/// Returns the slice of each arrow end. This is a slice of the arrow's kind that begins at that
/// time, otherwise the innermost open slice. Each track is scanned once, regardless of the nesting
/// depth.
fn places(trace: &Trace, ends: &[FlowEnd], new_numbers: &[u32]) -> Vec<Option<u32>> {
    let slices = &trace.slices;
    let number = |end: &FlowEnd| new_numbers[end.track as usize] as usize;
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by_key(|at| (number(&ends[*at]), ends[*at].time, ends[*at].kind as u8));
    let mut found = vec![None; ends.len()];
    let mut walked = usize::MAX;
    let mut last = None;
    // These are the innermost open slice and the next slice to begin.
    let (mut open, mut next) = (None, 0);
    for at in order {
        let end = &ends[at];
        let (number, time) = (number(end), end.time);
        let Some(track) = trace.tracks.get(number) else { continue };
        if walked != number {
            (walked, open, next, last) = (number, None, track.slices.start, None);
        }
        if let Some((key, place)) = last
            && key == (time, end.kind)
        {
            found[at] = place;
            continue;
        }
        while next < track.slices.end && slices[next].start <= time {
            open = Some(next);
            next += 1;
        }
        while let Some(innermost) = open
            && slices[innermost].end() <= time
        {
            open = slices[innermost].parent();
        }
        let begun = &slices[track.slices.start..next];
        let before = track.slices.start + begun.partition_point(|slice| slice.start < time);
        let is_of_its_kind = |place: &usize| match end.kind {
            FlowKind::ForwardBackward => slices[*place].category == Category::CpuOp,
            // An action slice on the stream begins together with its first kernel, so it is
            // excluded.
            FlowKind::Launch => {
                let category = slices[*place].category;
                category.is_runtime() || category.is_device_work()
            }
            FlowKind::Other => true,
        };
        let place = (before..next).find(is_of_its_kind).or(open);
        found[at] = place.map(|place| place as u32); // fewer than 2^32
        last = Some(((time, end.kind), found[at]));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_have_no_sign() {
        for (name, expected) in [
            ("thread -549452224 (python)", "thread 0xdf400640 (python)"),
            ("thread -1", "thread 0xffffffff"),
            ("thread -9223372036854775807", "thread 0x8000000000000001"),
            ("thread 17 (python)", "thread 17 (python)"),
            ("thread -x", "thread -x"),
            ("stream -1", "stream -1"),
        ] {
            assert_eq!(without_sign(name.to_owned()), expected);
        }
    }
}
