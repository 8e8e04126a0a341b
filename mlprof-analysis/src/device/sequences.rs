//! Sequences of kernels that ops launch repeatedly.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::window::Window;
use super::work::{Device, DeviceWork};
use crate::answers::KernelSequence;
use crate::classify::Meanings;
use crate::trace::{Category, Name, Trace};

/// Minimum number of kernels in a sequence. A single kernel cannot be fused.
const FEWEST_KERNELS: usize = 2;
/// Minimum number of occurrences.
const FEWEST: u64 = 2;
/// Maximum number of reported sequences.
const MOST: usize = 20;

/// Returns the index of the outermost op around each slice, or of the slice itself.
pub(super) fn outermost_ops(trace: &Trace) -> Vec<Option<u32>> {
    trace.inherited(None, |place, slice, around: Option<u32>| {
        let own = (slice.category == Category::CpuOp).then_some(place as u32); // fewer than 2^32
        around.or(own)
    })
}

/// Returns the sequences launched in the window, grouped by outermost op, most device time first. A
/// communication kernel ends a sequence because it cannot be fused.
pub(super) fn of(
    trace: &Trace,
    outermost_ops: &[Option<u32>],
    meanings: &Meanings,
    work: &DeviceWork,
    device: &Device,
    window: &Window,
) -> Vec<KernelSequence> {
    // Launch time, kernel name and duration by op. A communication kernel has no name.
    let mut by_op: FxHashMap<usize, Vec<(i64, Option<Name>, i64)>> = FxHashMap::default();
    for place in device.streams.iter().flat_map(|stream| &stream.work) {
        let slice = &trace.slices[*place as usize];
        let call = work.call(*place).filter(|_| slice.category == Category::Kernel);
        let is_inside = |call: &u32| window.contains(trace.slices[*call as usize].start);
        let Some(call) = call.filter(is_inside) else { continue };
        if let Some(op) = outermost_ops[call as usize].map(|op| op as usize) {
            let launched = trace.slices[call as usize].start;
            let name = (!meanings.communicates(slice)).then_some(slice.name);
            by_op.entry(op).or_default().push((launched, name, slice.duration));
        }
    }
    let mut sums: BTreeMap<(Name, Vec<Name>), (u64, i64)> = BTreeMap::new();
    for (op, mut kernels) in by_op {
        kernels.sort_by_key(|(launched, _, _)| *launched);
        let parts = kernels.split(|(_, name, _)| name.is_none());
        for part in parts.filter(|part| part.len() >= FEWEST_KERNELS) {
            let names = part.iter().filter_map(|(_, name, _)| *name).collect();
            let sum = sums.entry((trace.slices[op].name, names)).or_default();
            sum.0 += 1;
            sum.1 += part.iter().map(|(_, _, duration)| duration).sum::<i64>();
        }
    }
    let text = |name: Name| trace.names.text(name).to_owned();
    let frequent = sums.into_iter().filter(|(_, (count, _))| *count >= FEWEST);
    let mut rows: Vec<KernelSequence> = frequent
        .map(|((op, kernels), (count, device_ns))| {
            let kernels = kernels.into_iter().map(text).collect();
            KernelSequence { op: text(op), kernels, count, device_ns }
        })
        .collect();
    rows.sort_by_key(|row| Reverse(row.device_ns));
    rows.truncate(MOST);
    rows
}
