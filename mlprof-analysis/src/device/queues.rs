//! Queue length of streams.

use super::window::Window;
use super::work::{DeviceWork, Stream};
use crate::answers::QueueLength;
use crate::trace::Trace;

/// Returns the queue length of a stream, weighted by time. It grows at the start of each launch
/// call and shrinks when the work begins. `None` if no call is known for work in the window.
pub(super) fn of(
    trace: &Trace,
    work: &DeviceWork,
    stream: &Stream,
    window: &Window,
) -> Option<QueueLength> {
    let mut changes = Vec::new();
    for place in &stream.work {
        if let Some(call) = work.call(*place) {
            let begun = trace.slices[*place as usize].start;
            changes.push((trace.slices[call as usize].start.min(begun), 1));
            changes.push((begun, -1));
        }
    }
    // Simultaneous launches precede starts, so that the length is not negative.
    changes.sort_unstable_by_key(|(time, change)| (*time, -change));
    let (first, last) = (changes.first()?.0, changes.last()?.0);
    if !window.touches(first, last) {
        return None;
    }
    let (mut length, mut max, mut empty, mut weighted, mut now) = (0, 0, 0, 0_i128, first);
    for (time, change) in changes {
        let since = window.clip(now, time);
        max = if since > 0 { max.max(length) } else { max };
        weighted += i128::from(length) * i128::from(since);
        empty += if length == 0 { since } else { 0 };
        (now, length) = (time, length + change);
        max = if window.contains(time) { max.max(length) } else { max };
    }
    let span_ns = window.clip(first, last);
    let mean = if span_ns > 0 { weighted as f64 / span_ns as f64 } else { 0.0 };
    Some(QueueLength { stream: stream.number, span_ns, mean, max, empty_ns: empty })
}
