//! Why a stream did nothing.

use super::window::Window;
use super::work::{DeviceWork, Stream};
use crate::answers::StreamIdle;
use crate::trace::Trace;

/// Gaps below this are what a device needs between kernels: HolisticTraceAnalysis's threshold, in
/// nanoseconds.
pub(crate) const BETWEEN: i64 = 30_000;

/// From its first to its last work in the window; `None` if there is none.
pub(super) fn of(
    trace: &Trace,
    work: &DeviceWork,
    stream: &Stream,
    window: &Window,
) -> Option<StreamIdle> {
    let mut idle = StreamIdle { stream: stream.number, ..StreamIdle::default() };
    let slices = stream.work.iter().map(|place| (*place, &trace.slices[*place as usize]));
    let mut slices = slices.filter(|(_, slice)| window.touches(slice.start, slice.end()));
    let (_, first) = slices.next()?;
    let mut done = first.end();
    idle.busy_ns = window.clip(first.start, done);
    for (place, slice) in slices {
        let gap = window.clip(done, slice.start);
        if gap > 0 {
            // A call that began later than its work does not explain it: clocks differ.
            let call =
                work.call(place).map(|call| trace.slices[call as usize].start.min(slice.start));
            match call.filter(|call| *call > done) {
                Some(call) => {
                    idle.waiting_for_host_ns += window.clip(done, call);
                    idle.launch_delay_ns += window.clip(call, slice.start);
                }
                None if gap < BETWEEN => idle.between_kernels_ns += gap,
                None => idle.other_ns += gap,
            }
        }
        idle.busy_ns += window.clip(slice.start.max(done), slice.end());
        done = done.max(slice.end());
    }
    idle.span_ns = window.clip(first.start, done);
    Some(idle)
}
