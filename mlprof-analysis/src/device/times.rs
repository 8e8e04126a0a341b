//! Time breakdown of a device, and overlap with computation.

use super::union::Union;
use super::window::Window;
use super::work::Device;
use crate::answers::{DeviceTimes, Overlap, WorkKind};
use crate::classify::Meanings;
use crate::trace::Trace;

fn of_kind(trace: &Trace, meanings: &Meanings, device: &Device, kind: WorkKind) -> Union {
    let of_kind = device.slices(trace).filter(|slice| meanings.work(slice) == Some(kind));
    Union::of(of_kind.map(|slice| (slice.start, slice.end())).collect())
}

/// Returns the time breakdown. The parts add up to the window.
pub(super) fn of(
    trace: &Trace,
    meanings: &Meanings,
    device: &Device,
    window: &Window,
) -> DeviceTimes {
    let within = |kind| of_kind(trace, meanings, device, kind).within(window.union());
    let compute = within(WorkKind::Compute);
    let with_communication = compute.or(&within(WorkKind::Communication));
    let all = with_communication.or(&within(WorkKind::Memory));
    let end = window.span().1;
    let (first, last) = all.span().unwrap_or((end, end));
    let sum = |kind| {
        let of_kind = device.slices(trace).filter(|slice| meanings.work(slice) == Some(kind));
        of_kind.map(|slice| window.clip(slice.start, slice.end())).sum()
    };
    let work = device.slices(trace).filter(|slice| meanings.work(slice).is_some());
    let everything = Union::of(work.map(|slice| (slice.start, slice.end())).collect());
    let after = Union::of(vec![(end, i64::MAX)]);
    DeviceTimes {
        window_ns: window.length(),
        compute_ns: compute.length(),
        exposed_communication_ns: with_communication.length() - compute.length(),
        exposed_memory_ns: all.length() - with_communication.length(),
        idle_before_ns: window.clip(i64::MIN, first),
        idle_between_ns: window.clip(first, last) - all.length(),
        idle_after_ns: window.clip(last, i64::MAX),
        compute_sum_ns: sum(WorkKind::Compute),
        communication_sum_ns: sum(WorkKind::Communication),
        memory_sum_ns: sum(WorkKind::Memory),
        outside_ns: everything.length() - all.length(),
        after_last_step_ns: everything.within(&after).length(),
    }
}

/// Returns the overlap of each present kind of work with computation.
pub(super) fn overlaps(
    trace: &Trace,
    meanings: &Meanings,
    device: &Device,
    window: &Window,
) -> Vec<Overlap> {
    let within = |kind| of_kind(trace, meanings, device, kind).within(window.union());
    let compute = within(WorkKind::Compute);
    let overlap = |kind| {
        let all = within(kind);
        let (total_ns, hidden_ns) = (all.length(), all.common(&compute));
        (total_ns > 0).then_some(Overlap { kind, total_ns, hidden_ns })
    };
    [WorkKind::Communication, WorkKind::Memory].into_iter().filter_map(overlap).collect()
}
