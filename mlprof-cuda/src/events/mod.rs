//! Device regions of a stream, timed with CUDA events.
//!
//! A region records one event at its start and another one at its end. The device stores the times
//! when it reaches them. The host does not wait and reads the events after they have completed.
//!
//! * `stream` is a stream that can be timed, and `region` is an open region.
//! * `context` contains the events and the pending regions of one CUDA context.
//! * `actions` opens regions around actions for profilers that measure devices.
//! * `anchor` relates the time lines of the host and the device.
//! * `contexts` lists all contexts, and `delivery` reports regions to their profilers.

mod actions;
mod anchor;
mod context;
mod contexts;
mod delivery;
mod opened;
mod region;
mod stream;

pub(super) use self::actions::ActionClock;
pub use self::actions::measure_actions_on;
pub(super) use self::context::set_numbering;
pub use self::stream::Stream;

use self::region::Region;
use mlprof_core::hook::with_active;
pub use mlprof_core::hook::{max_pending_regions, set_max_pending_regions};
use mlprof_core::{Action, ActiveScope, Interest, Profiler, ProfilerExt, Scope};

/// Extension of profilers, owned or behind `Arc<dyn Profiler>`, with device regions.
pub trait DeviceProfilerExt: Profiler + sealed::Sealed {
    /// Measures an action on the host, like [`profile`](ProfilerExt::profile), and on the device
    /// until the guard is dropped. The device time begins when `stream` reaches the work enqueued
    /// from now on, and it ends when the stream has completed this work. Bind the guard to a name.
    ///
    /// ```
    /// use mlprof_core::prelude::*;
    /// use mlprof_cuda::{DeviceProfilerExt, Stream};
    ///
    /// let profiler = SimpleProfiler::new();
    /// {
    ///     let _scope = profiler.profile_device("forward", Stream::default_stream());
    ///     // … kernels are launched …
    /// }
    /// // With a device there is also a row `forward [device]`, otherwise a note with the reason.
    /// assert!(profiler.summary().contains("forward"));
    /// ```
    ///
    /// With candle, use the stream of the device:
    ///
    /// ```ignore
    /// let stream = device.as_cuda_device()?.cuda_stream();
    /// let _scope = profiler.profile_device("forward", &stream);
    /// ```
    ///
    /// *Asynchronous*: the host does not wait for the device when a region begins or ends.
    /// Completed events are read when later regions begin, and the rest are read for the report.
    /// The Simple, Advanced and Tensor profilers show regions. A custom profiler shows them if it
    /// adds a sink when it observes [`RegionOpened`](mlprof_core::Observation::RegionOpened).
    ///
    /// *Cost*: that of the action, two events (about 1 µs each to record), and about 0.3 µs of
    /// bookkeeping. None of this counts as the action's own time. The first region of a context
    /// waits once for an empty stream of its own, which takes about 50 µs. *Memory*: at most
    /// [`max_pending_regions`] pairs of events per context.
    ///
    /// *Limitations*: in the following cases the action is measured on the host only, and the
    /// report contains the number of such cases and the reasons.
    ///
    /// - There is no driver or no context.
    /// - The stream is captured into a graph.
    /// - The driver rejects a call.
    /// - Too many regions are pending.
    ///
    /// A recording of the Tensor profiler omits regions that are still open at its end. Programs
    /// that open regions must not call `cudaDeviceReset`, because it destroys the events.
    #[inline]
    fn profile_device<'stream>(
        &self,
        action: impl Into<Action>,
        stream: impl Into<Stream<'stream>>,
    ) -> DeviceScope<'_, 'stream, Self> {
        let action = action.into();
        let sink = self.region_sink();
        let region = sink.and_then(|sink| Region::open(action, stream.into(), sink));
        DeviceScope { _scope: self.profile(action), _region: region }
    }
}

impl<P: Profiler + ?Sized> DeviceProfilerExt for P {}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<P: super::Profiler + ?Sized> Sealed for P {}
}

/// Measures an action like [`DeviceProfilerExt::profile_device`] with the
/// [active](mlprof_core::activate) profiler. *Cost*: one relaxed load if there is none.
///
/// ```
/// use mlprof_cuda::{Stream, profile_device};
/// use mlprof_core::{Profiler, SimpleProfiler, activate};
/// use std::sync::Arc;
///
/// let profiler = Arc::new(SimpleProfiler::new());
/// let active = activate(profiler.clone());
/// {
///     let _scope = profile_device("forward", Stream::default_stream());
///     // … kernels are launched …
/// }
/// drop(active);
/// assert!(profiler.summary().contains("forward"));
/// ```
#[inline]
pub fn profile_device<'stream>(
    action: impl Into<Action>,
    stream: impl Into<Stream<'stream>>,
) -> ActiveDeviceScope<'stream> {
    let mut sink = None;
    with_active(Interest::ACTIONS, |profiler| sink = profiler.region_sink());
    let action = action.into();
    let region = sink.and_then(|sink| Region::open(action, stream.into(), sink));
    ActiveDeviceScope { _scope: ActiveScope::open(|| action, Interest::ACTIONS), _region: region }
}

/// Guard of an open region of [`DeviceProfilerExt::profile_device`], which ends when the guard is
/// dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct DeviceScope<'profiler, 'stream, P: Profiler + ?Sized = dyn Profiler> {
    // Fields are dropped in this order, so the time for ending the region does not count for the
    // action.
    _scope: Scope<'profiler, P>,
    _region: Option<Region<'stream>>,
}
mlprof_core::debug_as_name!([P: Profiler + ?Sized] DeviceScope<'_, '_, P>);

/// Guard of an open region of [`profile_device`], which ends when the guard is dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct ActiveDeviceScope<'stream> {
    // Fields are dropped in this order, so the time for ending the region does not count for the
    // action.
    _scope: ActiveScope,
    _region: Option<Region<'stream>>,
}
mlprof_core::debug_as_name!([] ActiveDeviceScope<'_>);
