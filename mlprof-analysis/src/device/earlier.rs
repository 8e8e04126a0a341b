//! Work that was launched before the trace began, such as that of an earlier step.

use super::union::Union;
use super::window::Window;
use super::work::{Device, DeviceWork, Stream};
use crate::trace::Trace;

/// Work that was launched before the trace began, as far as it began in the window.
pub(super) struct EarlierWork {
    /// How many kernels, copies and fills.
    pub(super) count: u64,
    /// When any of it ran within the window.
    pub(super) busy: Union,
}

/// Returns the work of a device that was launched before the trace began. A stream works in the
/// order of launches: what began before the first work with a known call was launched before that
/// call.
pub(super) fn of(
    trace: &Trace,
    work: &DeviceWork,
    device: &Device,
    window: &Window,
) -> EarlierWork {
    let is_known = |place: &u32| work.call(*place).is_some();
    let first_known = |stream: &Stream| stream.work.iter().position(is_known);
    // A stream whose work was all launched before has no known call. Other streams have one then.
    let begun = device
        .streams
        .iter()
        .filter_map(|stream| Some(trace.slices[stream.work[first_known(stream)?] as usize].start));
    let Some(begun) = begun.min() else {
        // Nothing is known of calls, as in traces of devices alone.
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
