//! Slices as begin and end events, with arguments and flows.

use std::io::{self, Write};

use super::messages::{DebugAnnotation, EventType, TrackEvent};
use super::packets::{Packets, Sequence};
use crate::trace::{Edge, Name, Slice, Trace, Track};

/// Maximum nesting depth of slices on a track. Perfetto omits slices deeper than 512.
pub(super) const LEVELS: usize = 500;

/// Flow arrows by slice.
pub(super) struct Flows {
    /// Slice index, flow id, and `true` if the flow ends at the slice. Sorted by slice index.
    ends: Vec<(u32, u64, bool)>,
}

impl Flows {
    /// Returns the flows that can be written, and the number of omitted ones.
    pub(super) fn of(trace: &Trace) -> (Self, u64) {
        let mut ends = Vec::with_capacity(2 * trace.flows.len());
        let mut left_out = 0;
        for (number, flow) in (1..).zip(&trace.flows) {
            // Perfetto orders events with equal times by their order in the file.
            let at = |place: u32| (trace.slices[place as usize].start, place);
            if at(flow.from) < at(flow.to) {
                ends.extend([(flow.from, number, false), (flow.to, number, true)]);
            } else {
                left_out += 1;
            }
        }
        ends.sort_unstable();
        (Self { ends }, left_out)
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.len() as u64 / 2
    }

    /// Adds the flows of a slice to its begin event.
    fn add(&self, place: usize, event: &mut TrackEvent) {
        let first = self.ends.partition_point(|(of, ..)| (*of as usize) < place);
        let of_it = self.ends[first..].iter().take_while(|(of, ..)| *of as usize == place);
        for (_, number, ends) in of_it {
            match ends {
                false => event.flow_ids.push(*number),
                true => event.terminating_flow_ids.push(*number),
            }
        }
    }
}

/// Returns the number of slices around the deepest slice. A slice's own `depth` saturates at
/// `u16::MAX`, so deeper tracks are counted by their edges.
pub(super) fn deepest(trace: &Trace, track: &Track) -> usize {
    let depths = trace.of_track(track).iter().map(|slice| slice.depth);
    let deepest = depths.max().unwrap_or(0);
    if deepest < u16::MAX {
        return deepest.into();
    }
    let (mut open, mut deepest) = (0_usize, 0);
    for edge in trace.edges(track) {
        match edge {
            Edge::Open(_) => open += 1,
            Edge::Close(_) => open -= 1,
        }
        deepest = deepest.max(open);
    }
    deepest.saturating_sub(1)
}

/// Writes the slices of one nesting level of a track. Returns the number of written slices.
pub(super) fn write<W: Write>(
    trace: &Trace,
    track: usize,
    flows: &Flows,
    (uuid, level): (u64, usize),
    zero: i64,
    packets: &mut Packets<W>,
) -> io::Result<u64> {
    let track = &trace.tracks[track];
    let Some(first) = trace.of_track(track).first() else { return Ok(0) };
    let mut sequence = packets.sequence(uuid, first.start - zero)?;
    let (mut open, mut count) = (0_usize, 0);
    for edge in trace.edges(track) {
        match edge {
            Edge::Open(place) => {
                if open / LEVELS == level {
                    let slice = &trace.slices[place];
                    let mut event = begin(trace, slice, &mut sequence);
                    flows.add(place, &mut event);
                    sequence.event(slice.start - zero, EventType::SliceBegin, event)?;
                    count += 1;
                }
                open += 1;
            }
            Edge::Close(place) => {
                open -= 1;
                if open / LEVELS == level {
                    let time = trace.slices[place].end() - zero;
                    sequence.event(time, EventType::SliceEnd, TrackEvent::default())?;
                }
            }
        }
    }
    Ok(count)
}

fn begin<W: Write>(trace: &Trace, slice: &Slice, sequence: &mut Sequence<'_, W>) -> TrackEvent {
    let mut event = TrackEvent {
        name_iid: Some(sequence.name(slice.name.0, trace.name(slice))),
        category_iids: vec![sequence.category(slice.category.as_str())],
        ..Default::default()
    };
    let mut number = |key: &'static str, value: Option<i64>| {
        let Some(value) = value else { return };
        event.debug_annotations.push(DebugAnnotation {
            name_iid: Some(sequence.key(key)),
            int_value: Some(value),
            string_value_iid: None,
        });
    };
    let natural = |value: u64| i64::try_from(value).ok().filter(|value| *value != 0);
    number("correlation", natural(slice.correlation.into()));
    let Some(details) = trace.details(slice) else { return event };
    number("Sequence number", natural(details.sequence));
    number("bytes", natural(details.bytes));
    number("flops", natural(details.flops));
    number("Seq", details.collective.and_then(|number| i64::try_from(number).ok()));
    number("stream", details.stream.map(i64::from));
    number("wait_on_stream", details.event.stream.map(i64::from));
    let recorded_by = natural(details.event.recorded_by.into());
    number("wait_on_cuda_event_record_corr_id", recorded_by);
    for (key, name) in [("Input Dims", details.shapes), ("Called from", details.called_from)] {
        if name == Name::EMPTY {
            continue;
        }
        event.debug_annotations.push(DebugAnnotation {
            name_iid: Some(sequence.key(key)),
            int_value: None,
            string_value_iid: Some(sequence.value(name.0, trace.names.text(name))),
        });
    }
    event
}
