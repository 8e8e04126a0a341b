//! Regions of a stream, timed by CUDA's events.
//!
//! An event is put into the stream where a region begins, and another one where it ends; the device
//! writes down when it comes to them. Nobody waits: the events are read later, when they are over.
//!
//! * `stream` is whatever can be timed. `region` is one that is open.
//! * `context` keeps, for each of the driver's contexts, the events, and the regions under way.
//! * `actions` opens regions around actions, for profilers that measure devices.
//! * `anchor` is what the host's and the device's time lines have in common.
//! * `contexts` knows all of them, and `delivery` brings regions to the profilers that they were opened for.

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

/// Regions of a device for every profiler, owned or behind `Arc<dyn Profiler>`.
pub trait DeviceProfilerExt: Profiler + sealed::Sealed {
    /// Measures from here until the guard is dropped, on the host like
    /// [`profile`](ProfilerExt::profile), and on the device: from when `stream` comes to what is
    /// handed to it from here on until it has done all of that. Bind it to a name.
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
    /// // With a device there is a row `forward [device]` besides, without one a note that says why.
    /// assert!(profiler.summary().contains("forward"));
    /// ```
    ///
    /// With candle the stream is the device's:
    ///
    /// ```ignore
    /// let stream = device.as_cuda_device()?.cuda_stream();
    /// let _scope = profiler.profile_device("forward", &stream);
    /// ```
    ///
    /// *Nobody waits* for the device where a region begins or ends: events that are over are read
    /// when later regions begin, and the rest when the report is made. Simple, Advanced and Tensor
    /// profilers show such regions; a profiler of your own does if it adds a
    /// sink when it observes [`RegionOpened`](mlprof_core::Observation::RegionOpened).
    ///
    /// *Cost*: that of the action, two events (about 1 µs each to record), and some 0.3 µs of
    /// bookkeeping. None of this is in the action's own time. The first region of a context waits
    /// once for an empty stream of its own, some 50 µs. *Memory*: at most
    /// [`max_pending_regions`] pairs of events per context.
    ///
    /// *Where it cannot be*: without a driver or a context, while the stream is captured into a graph,
    /// when the driver refuses something, or with too many regions under way, the action is measured
    /// on the host alone, and the report counts how often that was so, and why. A recording of the
    /// Tensor profiler has no regions that are still open at its end. `cudaDeviceReset` takes the
    /// events away: not in a program that opens regions.
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

/// Keeps other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<P: super::Profiler + ?Sized> Sealed for P {}
}

/// [`DeviceProfilerExt::profile_device`] for the [active](mlprof_core::activate) profiler. *Cost*:
/// one relaxed load when there is none.
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

/// An open region of [`DeviceProfilerExt::profile_device`]; ends when dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct DeviceScope<'profiler, 'stream, P: Profiler + ?Sized = dyn Profiler> {
    // In this order: ending the region is no part of the action.
    _scope: Scope<'profiler, P>,
    _region: Option<Region<'stream>>,
}
mlprof_core::debug_as_name!([P: Profiler + ?Sized] DeviceScope<'_, '_, P>);

/// An open region of [`profile_device`]; ends when dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct ActiveDeviceScope<'stream> {
    // In this order: ending the region is no part of the action.
    _scope: ActiveScope,
    _region: Option<Region<'stream>>,
}
mlprof_core::debug_as_name!([] ActiveDeviceScope<'_>);
