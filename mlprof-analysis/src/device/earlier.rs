//! Work that was launched before the trace began, for example by an earlier step.

use super::union::Union;
use super::window::Window;
use super::work::{Device, DeviceWork, Stream};
use crate::trace::Trace;

/// Work that was launched before the trace began and began in the window.
pub(super) struct EarlierWork {
    /// Number of kernels, copies and fills.
    pub(super) count: u64,
    /// Times in which this work ran within the window.
    pub(super) busy: Union,
}

/// Returns the device work that was launched before the trace began. A stream runs work in launch
/// order, so work before the first work with a known call was launched before that call.
pub(super) fn of(
    trace: &Trace,
    work: &DeviceWork,
    device: &Device,
    window: &Window,
) -> EarlierWork {
    let is_known = |place: &u32| work.call(*place).is_some();
    let first_known = |stream: &Stream| stream.work.iter().position(is_known);
    // If all work of a stream was launched before the trace, the stream has no known call. Its work
    // then counts up to the first known call of the other streams.
    let begun = device
        .streams
        .iter()
        .filter_map(|stream| Some(trace.slices[stream.work[first_known(stream)?] as usize].start));
    let Some(begun) = begun.min() else {
        // No calls are known, as in device-only traces.
        return EarlierWork { count: 0, busy: Union::default() };
    };
    let earlier = device.streams.iter().flat_map(|stream| {
        let known = first_known(stream);
        let before = known.unwrap_or(stream.work.len());
        let slices = stream.work[..before].iter().map(|place| &trace.slices[*place as usize]);
        slices.filter(move |slice| known.is_some() || slice.start < begun)
    });
    let (mut count, mut parts) = (0, Vec::new());
    for slice in earlier {
        count += u64::from(window.contains(slice.start));
        parts.push((slice.start, slice.end()));
    }
    EarlierWork { count, busy: Union::of(parts).within(window.union()) }
}
