//! Allocations and frees as events on their threads.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Source;
use super::messages::XEvent;
use super::plane::{EventName, Plane};
use crate::Trace;
use crate::trace::{Category, MemoryChange};

pub(super) struct Memory<'trace> {
    /// Changes of each thread, each with the peak bytes in use on its device until then.
    of_tracks: FxHashMap<u32, Vec<(&'trace MemoryChange, u64)>>,
    /// Memory capacity of each device in bytes. If it is unknown, this is the largest number of
    /// bytes in use or reserved.
    capacities: BTreeMap<Option<u32>, u64>,
}

impl<'trace> Memory<'trace> {
    pub(super) fn of(trace: &'trace Trace) -> Self {
        let mut peaks: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        let mut memory = Self { of_tracks: FxHashMap::default(), capacities: BTreeMap::new() };
        for change in &trace.memory {
            let peak = peaks.entry(change.device).or_default();
            // If the first change is a free, more memory was in use before it.
            let before = change.allocated.saturating_add_signed(change.bytes.saturating_neg());
            *peak = change.allocated.max(before).max(*peak);
            let capacity = memory.capacities.entry(change.device).or_insert_with(|| {
                let mut described = trace.info.devices.iter();
                let own = described.find(|device| Some(device.number) == change.device);
                own.map_or(0, |device| device.memory)
            });
            *capacity = before.max(change.allocated).max(change.reserved).max(*capacity);
            if let Some(track) = change.track {
                memory.of_tracks.entry(track).or_default().push((change, *peak));
            }
        }
        memory
    }

    pub(super) fn of_track(
        &self,
        source: &Source<'_>,
        track: u32,
        plane: &mut Plane,
    ) -> Vec<XEvent> {
        let changes = self.of_tracks.get(&track).map_or(&[][..], Vec::as_slice);
        changes.iter().map(|(change, peak)| self.event(source, change, *peak, plane)).collect()
    }

    fn event(
        &self,
        source: &Source<'_>,
        change: &MemoryChange,
        peak: u64,
        plane: &mut Plane,
    ) -> XEvent {
        let (key, name) = match change.bytes < 0 {
            true => (EventName::Deallocation, "MemoryDeallocation"),
            false => (EventName::Allocation, "MemoryAllocation"),
        };
        let metadata_id = plane.event(key, || (name.to_owned(), name.to_owned()));
        let allocator = match change.device {
            None => "CPU".to_owned(),
            Some(device) => format!("GPU_{device}"),
        };
        let capacity = self.capacities.get(&change.device).copied().unwrap_or_default();
        let bytes = change.bytes.unsigned_abs();
        let numbers = [
            ("bytes_reserved", 0),
            ("bytes_allocated", change.allocated),
            ("bytes_available", capacity.saturating_sub(change.allocated)),
            ("peak_bytes_in_use", peak),
            ("requested_bytes", bytes),
            ("allocation_bytes", bytes),
            ("addr", change.address),
        ];
        let mut stats = vec![plane.text("allocator_name", &allocator)];
        stats.extend(numbers.map(|(name, value)| plane.number(name, value.cast_signed())));
        if let Some(op) = change.track.and_then(|track| innermost_op(source, track, change.time)) {
            // XProf counts this event as a call of the named op, so the name must differ from the
            // op's own name.
            let name = source.op(op);
            let name = name.split(':').next().unwrap_or_default();
            stats.push(plane.text("tf_op", &format!("{name}(memory)")));
        }
        XEvent {
            metadata_id,
            offset_ps: super::picoseconds(change.time - source.start),
            duration_ps: 0,
            stats,
        }
    }
}

/// Returns the innermost op of a thread at a moment.
fn innermost_op(source: &Source<'_>, track: u32, time: i64) -> Option<usize> {
    let slices = source.trace.tracks[track as usize].slices.clone();
    let own = &source.trace.slices[slices.clone()];
    let begun = own.partition_point(|slice| slice.start <= time);
    let last = slices.start + begun.checked_sub(1)?;
    let around = std::iter::successors(Some(last), |place| source.trace.slices[*place].parent());
    let mut ops = around.filter(|place| {
        let slice = &source.trace.slices[*place];
        slice.category == Category::CpuOp && slice.end() >= time
    });
    ops.next()
}
