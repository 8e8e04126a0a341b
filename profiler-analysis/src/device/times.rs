//! What a device did over time, and what was hidden behind its computing.

use super::union::Union;
use super::work::Device;
use crate::answers::{DeviceTimes, Overlap, WorkKind};
use crate::meaning::Meanings;
use crate::trace::Trace;

fn of_kind(trace: &Trace, meanings: &Meanings, device: &Device, kind: WorkKind) -> Union {
    let of_kind = device.slices(trace).filter(|slice| meanings.work(slice) == Some(kind));
    Union::of(of_kind.map(|slice| (slice.start, slice.end())).collect())
}

/// The parts add up to the window.
pub(super) fn of(
    trace: &Trace,
    meanings: &Meanings,
    device: &Device,
    window: (i64, i64),
) -> DeviceTimes {
    let within = |kind| of_kind(trace, meanings, device, kind).within(window);
    let compute = within(WorkKind::Compute);
    let with_communication = compute.or(&within(WorkKind::Communication));
    let all = with_communication.or(&within(WorkKind::Memory));
    let (first, last) = all.span().unwrap_or((window.1, window.1));
    let sum = |kind| {
        let of_kind = device.slices(trace).filter(|slice| meanings.work(slice) == Some(kind));
        let inside = of_kind.map(|slice| slice.end().min(window.1) - slice.start.max(window.0));
        inside.map(|length| length.max(0)).sum()
    };
    DeviceTimes {
        window_ns: window.1 - window.0,
        compute_ns: compute.length(),
        exposed_communication_ns: with_communication.length() - compute.length(),
        exposed_memory_ns: all.length() - with_communication.length(),
        idle_before_ns: first - window.0,
        idle_between_ns: last - first - all.length(),
        idle_after_ns: window.1 - last,
        compute_sum_ns: sum(WorkKind::Compute),
        communication_sum_ns: sum(WorkKind::Communication),
        memory_sum_ns: sum(WorkKind::Memory),
    }
}

/// Of the kinds that there are, over the whole trace.
pub(super) fn overlaps(trace: &Trace, meanings: &Meanings, device: &Device) -> Vec<Overlap> {
    let compute = of_kind(trace, meanings, device, WorkKind::Compute);
    let overlap = |kind| {
        let all = of_kind(trace, meanings, device, kind);
        let (total_ns, hidden_ns) = (all.length(), all.common(&compute));
        (total_ns > 0).then_some(Overlap { kind, total_ns, hidden_ns })
    };
    [WorkKind::Communication, WorkKind::Memory].into_iter().filter_map(overlap).collect()
}
