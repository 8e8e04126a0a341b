//! Why a stream did nothing.

use super::work::{DeviceWork, Stream};
use crate::answers::StreamIdle;
use crate::trace::Trace;

/// Gaps below this are what a device needs between kernels: HolisticTraceAnalysis's threshold, in
/// nanoseconds.
pub(super) const BETWEEN: i64 = 30_000;

/// From its first to its last work.
pub(super) fn of(trace: &Trace, work: &DeviceWork, stream: &Stream) -> StreamIdle {
    let mut idle = StreamIdle { stream: stream.number, ..StreamIdle::default() };
    let mut slices = stream.work.iter().map(|place| (*place, &trace.slices[*place as usize]));
    let Some((_, first)) = slices.next() else { return idle };
    let mut done = first.end();
    idle.busy_ns = first.duration;
    for (place, slice) in slices {
        let gap = slice.start - done;
        if gap > 0 {
            // A call that began later than its work does not explain it: clocks differ.
            let call =
                work.call(place).map(|call| trace.slices[call as usize].start.min(slice.start));
            match call.filter(|call| *call > done) {
                Some(call) => {
                    idle.waiting_for_host_ns += call - done;
                    idle.launch_delay_ns += slice.start - call;
                }
                None if gap < BETWEEN => idle.between_kernels_ns += gap,
                None => idle.other_ns += gap,
            }
        }
        idle.busy_ns += (slice.end() - slice.start.max(done)).max(0);
        done = done.max(slice.end());
    }
    idle.span_ns = done - first.start;
    idle
}
