//! Classification of allocations by purpose.

use std::collections::HashMap;

use super::changes::{Change, Recorded};
use crate::cycle::Cycle;
use mlprof_events::{MemoryCategory, MemoryDevice, Phase};

/// Memory from its allocation to its deallocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allocation {
    /// Index of the allocation among all changes.
    pub(super) allocated: usize,
    /// Index of the deallocation; `None` if the memory is alive at the end.
    pub(super) freed: Option<usize>,
    pub(super) category: MemoryCategory,
}

/// Memory from before the recording, as far as labels describe it: bytes and category by address.
pub(super) type EarlierMemory = HashMap<u64, (u64, MemoryCategory)>;

/// Returns the allocations of one device in chronological order.
pub(super) fn allocations(recorded: &Recorded, device: MemoryDevice) -> Vec<Allocation> {
    let mut allocations: Vec<Allocation> = Vec::new();
    let mut alive: HashMap<u64, usize> = HashMap::new();
    for (place, change) in recorded.changes.iter().enumerate() {
        let (address, bytes) = (change.change.address, change.change.bytes);
        // The lifetime of memory without an address is unknown.
        if change.change.device != device || bytes == 0 || address == 0 {
            continue;
        }
        if let Some(ended) = alive.remove(&address) {
            // The address is already in use, so a deallocation was not reported.
            allocations[ended].freed = Some(place);
        }
        if bytes > 0 {
            alive.insert(address, allocations.len());
            let category = MemoryCategory::Unknown;
            allocations.push(Allocation { allocated: place, freed: None, category });
        }
    }
    for allocation in &mut allocations {
        allocation.category = by_rules(recorded, allocation);
    }
    allocations
}

/// Determines the category from lifetime and phase.
fn by_rules(recorded: &Recorded, allocation: &Allocation) -> MemoryCategory {
    let Change { time, around, .. } = recorded.changes[allocation.allocated];
    let freed = allocation.freed.map(|place| recorded.changes[place].time);
    let is_freed_by = |end: Option<i64>| freed.zip(end).is_some_and(|(freed, end)| freed <= end);
    if is_freed_by(around.op_end) {
        return MemoryCategory::Temporary;
    }
    if around.is_input {
        return MemoryCategory::Input;
    }
    let run_end = |phase| recorded.run_at(phase, time).map(|run| run.end);
    match around.phase {
        Some(Phase::Forward) => {
            let backward = recorded.next_start(Phase::Backward, time);
            if is_freed_by(backward) || (backward.is_none() && is_freed_by(run_end(Phase::Forward)))
            {
                MemoryCategory::Temporary
            } else if backward.is_some() {
                MemoryCategory::Activation
            } else {
                MemoryCategory::Unknown
            }
        }
        Some(phase @ (Phase::Backward | Phase::Optimizer)) if is_freed_by(run_end(phase)) => {
            MemoryCategory::Temporary
        }
        Some(Phase::Backward) => MemoryCategory::Gradient,
        Some(Phase::Optimizer) => MemoryCategory::OptimizerState,
        _ => MemoryCategory::Unknown,
    }
}

/// Applies labels to allocations, and returns the labelled memory from before the recording.
pub(super) fn apply_labels(
    cycle: &Cycle,
    device: MemoryDevice,
    recorded: &Recorded,
    allocations: &mut [Allocation],
) -> EarlierMemory {
    let change = |place: usize| &recorded.changes[place];
    let mut by_address: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, allocation) in allocations.iter().enumerate() {
        let address = change(allocation.allocated).change.address;
        by_address.entry(address).or_default().push(index);
    }
    let firsts = first_times(recorded, device);
    let mut before = EarlierMemory::new();
    for (label, time) in cycle.memory_labels.iter().zip(&cycle.memory_label_times) {
        let time = cycle.nanoseconds_since_start(*time);
        if label.device != device || label.address == 0 {
            continue;
        }
        let indices = by_address.get(&label.address).map_or(&[][..], Vec::as_slice);
        let is_made = |index: &&usize| change(allocations[**index].allocated).time <= time;
        let latest = indices.iter().rfind(is_made).copied();
        let is_alive =
            |index: &usize| allocations[*index].freed.is_none_or(|freed| change(freed).time > time);
        if let Some(index) = latest.filter(is_alive) {
            allocations[index].category = label.category;
        } else if firsts.get(&label.address).is_none_or(|first| *first > time) {
            before.insert(label.address, (label.bytes, label.category));
        }
    }
    before
}

/// Returns the first time at which each address appears.
fn first_times(recorded: &Recorded, device: MemoryDevice) -> HashMap<u64, i64> {
    let mut times = HashMap::new();
    for change in recorded.changes.iter().filter(|change| change.change.device == device) {
        times.entry(change.change.address).or_insert(change.time);
    }
    times
}
