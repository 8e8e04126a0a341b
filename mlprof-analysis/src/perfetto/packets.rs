//! Packet writer, and sequences of packets.

use std::io::{self, Write};

use prost::Message;
use rustc_hash::FxHashMap;

use super::messages::{
    Clock, ClockSnapshot, EventType, InternedData, InternedText, TracePacket, TracePacketDefaults,
    TrackDescriptor, TrackEvent, TrackEventDefaults,
};

/// Tag of the field `Trace.packet`. The length of the packet follows it.
const PACKET: u8 = 1 << 3 | 2;
/// Buffer size in bytes at which packets are written out.
const CHUNK: usize = 1 << 16;
/// Id of `CLOCK_BOOTTIME`, which the trace declares as its clock.
pub(super) const TRACE_CLOCK: u32 = 6;
/// Id of a sequence's own clock, which counts from one packet to the next.
const OWN_CLOCK: u32 = 64;
/// Flag `SEQ_INCREMENTAL_STATE_CLEARED`.
const BEGINS: u32 = 1;
/// Flag `SEQ_NEEDS_INCREMENTAL_STATE`.
const GOES_ON: u32 = 2;

/// Trace file that is written packet by packet.
pub(super) struct Packets<W> {
    out: W,
    buffer: Vec<u8>,
    sequences: u32,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, buffer: Vec::with_capacity(2 * CHUNK), sequences: 0 }
    }

    pub(super) fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.push(PACKET);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        if self.buffer.len() < CHUNK {
            return Ok(());
        }
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the descriptor of a track, which must precede its events.
    pub(super) fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(&TracePacket { track_descriptor: Some(track), ..Default::default() })
    }

    /// Starts a sequence of events from the time `start` on. Events belong to `track` unless they
    /// name another track, and they must be sorted by time.
    pub(super) fn sequence(&mut self, track: u64, start: i64) -> io::Result<Sequence<'_, W>> {
        self.sequences += 1;
        let number = self.sequences;
        let clock = |id, is_incremental| Clock {
            clock_id: Some(id),
            timestamp: Some(start.cast_unsigned()),
            is_incremental,
        };
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(number),
            sequence_flags: Some(BEGINS),
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![clock(TRACE_CLOCK, None), clock(OWN_CLOCK, Some(true))],
            }),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(OWN_CLOCK),
                track_event_defaults: Some(TrackEventDefaults { track_uuid: Some(track) }),
            }),
            ..Default::default()
        })?;
        let texts = Texts::default();
        Ok(Sequence { packets: self, number, last: start, new: InternedData::default(), texts })
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }
}

/// Interned string ids of a sequence, starting at 1.
#[derive(Default)]
struct Texts {
    categories: FxHashMap<&'static str, u64>,
    names: FxHashMap<u32, u64>,
    keys: FxHashMap<&'static str, u64>,
    values: FxHashMap<u32, u64>,
}

/// Returns the id of a string. For a new string, it also adds an interning entry to `new`.
fn number<K: std::hash::Hash + Eq>(
    known: &mut FxHashMap<K, u64>,
    key: K,
    new: &mut Vec<InternedText>,
    text: &str,
) -> u64 {
    let next = known.len() as u64 + 1;
    let number = *known.entry(key).or_insert(next);
    if number == next {
        new.push(InternedText { iid: Some(next), text: Some(text.to_owned()) });
    }
    number
}

/// Sequence of packets that share interned strings and a clock.
pub(super) struct Sequence<'a, W> {
    packets: &'a mut Packets<W>,
    number: u32,
    last: i64,
    /// Strings to intern with the next packet.
    new: InternedData,
    texts: Texts,
}

impl<W: Write> Sequence<'_, W> {
    pub(super) fn category(&mut self, text: &'static str) -> u64 {
        number(&mut self.texts.categories, text, &mut self.new.event_categories, text)
    }

    /// Returns the id of a name. `name` is its key among the sequence's names.
    pub(super) fn name(&mut self, name: u32, text: &str) -> u64 {
        number(&mut self.texts.names, name, &mut self.new.event_names, text)
    }

    pub(super) fn key(&mut self, text: &'static str) -> u64 {
        number(&mut self.texts.keys, text, &mut self.new.debug_annotation_names, text)
    }

    pub(super) fn value(&mut self, name: u32, text: &str) -> u64 {
        let new = &mut self.new.debug_annotation_string_values;
        number(&mut self.texts.values, name, new, text)
    }

    pub(super) fn event(
        &mut self,
        time: i64,
        kind: EventType,
        event: TrackEvent,
    ) -> io::Result<()> {
        let new = std::mem::take(&mut self.new);
        let since = time.saturating_sub(self.last);
        self.last = time;
        self.packets.write(&TracePacket {
            timestamp: Some(u64::try_from(since).unwrap_or(0)), // they come by their times
            trusted_packet_sequence_id: Some(self.number),
            sequence_flags: Some(GOES_ON),
            interned_data: (new != InternedData::default()).then_some(new),
            track_event: Some(TrackEvent { r#type: Some(kind.into()), ..event }),
            ..Default::default()
        })
    }
}
