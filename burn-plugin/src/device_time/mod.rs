//! Device time of CubeCL devices (wgpu, CUDA, ROCm, Metal): of regions that a program marks, and of
//! actions for profilers that [measure devices](mlprof_core::SimpleProfiler::measure_devices).
//!
//! * `device` knows the devices, and `clock` times actions on them.
//! * `window` is one measurement that is open on one device, and `region` what is known of it.
//! * `pending` has those that are closed, until the device has answered.

mod clock;
mod device;
mod pending;
mod region;
mod window;

use std::sync::Arc;

use burn::tensor::Device;
use mlprof_core::hook::{RegionSink, with_active};
use mlprof_core::{Action, ActiveScope, Interest, Profiler, ProfilerExt, Scope};

pub(crate) use self::clock::watch;
use self::window::Window;
use crate::framework::device_name;

/// What [`profile_device`] times: a device of burn, or with the feature `cuda` a stream of CUDA.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Queue<'queue> {
    /// What the calling thread hands to a device.
    Device(&'queue Device),
    /// A stream that burn did not make.
    #[cfg(feature = "cuda")]
    Stream(mlprof_cuda::Stream<'queue>),
}

impl<'queue> From<&'queue Device> for Queue<'queue> {
    fn from(device: &'queue Device) -> Self {
        Self::Device(device)
    }
}

#[cfg(feature = "cuda")]
impl<'queue> From<mlprof_cuda::Stream<'queue>> for Queue<'queue> {
    fn from(stream: mlprof_cuda::Stream<'queue>) -> Self {
        Self::Stream(stream)
    }
}

#[cfg(feature = "cuda")]
impl<'queue> From<&mlprof_cuda::Stream<'queue>> for Queue<'queue> {
    fn from(stream: &mlprof_cuda::Stream<'queue>) -> Self {
        Self::Stream(*stream)
    }
}

/// Regions of burn's devices for every profiler, owned or behind `Arc<dyn Profiler>`.
pub trait DeviceProfilerExt: Profiler + sealed::Sealed {
    /// Measures from here until the guard is dropped, on the host like
    /// [`profile`](ProfilerExt::profile), and on the device: from the first work that the thread hands to
    /// it from here on to the last. Bind it to a name.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use mlprof_burn::prelude::*;
    ///
    /// let (profiler, device) = (SimpleProfiler::new(), Device::flex());
    /// {
    ///     let _scope = profiler.profile_device("forward", &device);
    ///     // … ops are called …
    /// }
    /// // On a GPU there is a row `forward [device]` besides, here a note that says why not.
    /// assert!(profiler.summary().contains("forward"));
    /// ```
    ///
    /// Nobody waits for the device: the report reads the times. On the time line of a trace a region stands
    /// where it was opened. *Cost*: the queue of ops is run empty at both ends, so that no fused block reaches over them;
    /// two messages to burn's own thread, or without burn's feature `fusion` two round trips to cubecl's; on wgpu a
    /// submission at each end. At most
    /// [`max_pending_regions`](mlprof_core::hook::max_pending_regions) are under way.
    ///
    /// *Where it cannot be*: on a device without timestamps (Flex, NdArray, cubecl's CPU, some GPUs under wgpu), while a graph is
    /// captured, or with too many regions under way, the action is measured on the host alone, and the
    /// report says how often that was so, and why.
    fn profile_device<'queue>(
        &self,
        action: impl Into<Action>,
        queue: impl Into<Queue<'queue>>,
    ) -> DeviceScope<'_, 'queue, Self> {
        let action = action.into();
        let guard = match queue.into() {
            Queue::Device(device) => {
                let window = self.region_sink().and_then(|sink| open(action, device, &sink));
                Guard::Device { _scope: self.profile(action), _window: window }
            }
            #[cfg(feature = "cuda")]
            Queue::Stream(stream) => Guard::Stream {
                _scope: mlprof_cuda::DeviceProfilerExt::profile_device(self, action, stream),
            },
        };
        DeviceScope { _guard: guard }
    }
}

impl<P: Profiler + ?Sized> DeviceProfilerExt for P {}

/// Keeps other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<P: super::Profiler + ?Sized> Sealed for P {}
}

/// [`DeviceProfilerExt::profile_device`] for the [active](mlprof_core::activate) profiler. *Cost*:
/// one relaxed load where no profiler is active.
///
/// ```
/// use burn::tensor::Device;
/// use mlprof_burn::profile_device;
///
/// let device = Device::flex();
/// let _scope = profile_device("forward", &device);
/// ```
pub fn profile_device<'queue>(
    action: impl Into<Action>,
    queue: impl Into<Queue<'queue>>,
) -> ActiveDeviceScope<'queue> {
    let action = action.into();
    let guard = match queue.into() {
        Queue::Device(device) => {
            let mut sink = None;
            with_active(Interest::ACTIONS, |profiler| sink = profiler.region_sink());
            let window = sink.and_then(|sink| open(action, device, &sink));
            let scope = ActiveScope::open(|| action, Interest::ACTIONS);
            Guard::Device { _scope: scope, _window: window }
        }
        #[cfg(feature = "cuda")]
        Queue::Stream(stream) => {
            Guard::Stream { _scope: mlprof_cuda::profile_device(action, stream) }
        }
    };
    ActiveDeviceScope { _guard: guard }
}

/// Opens a region; `None` where it cannot be timed, which `sink` is told.
fn open(action: Action, device: &Device, sink: &Arc<dyn RegionSink>) -> Option<Window> {
    let Some(device) = watch(device) else {
        sink.lost(&format!("{} has no clock that burn can read", device_name(device)));
        return None;
    };
    match device.why_not_timed() {
        None => Window::open(&device, action, sink),
        Some(why) => {
            sink.lost(&why);
            None
        }
    }
}

/// An action on the host, and its region. The fields are dropped in this order: ending the region is no part
/// of the action.
enum Guard<HostScope, StreamScope> {
    Device {
        _scope: HostScope,
        _window: Option<Window>,
    },
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "there are no streams"))]
    Stream {
        _scope: StreamScope,
    },
}

#[cfg(feature = "cuda")]
type StreamScope<'profiler, 'queue, P> = mlprof_cuda::DeviceScope<'profiler, 'queue, P>;
#[cfg(feature = "cuda")]
type ActiveStreamScope<'queue> = mlprof_cuda::ActiveDeviceScope<'queue>;
/// There is none without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
type StreamScope<'profiler, 'queue, P> =
    std::marker::PhantomData<(&'profiler P, &'queue (), *const ())>;
/// There is none without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
type ActiveStreamScope<'queue> = std::marker::PhantomData<(&'queue (), *const ())>;

/// An open region of [`DeviceProfilerExt::profile_device`]; ends when dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct DeviceScope<'profiler, 'queue, P: Profiler + ?Sized = dyn Profiler> {
    _guard: Guard<Scope<'profiler, P>, StreamScope<'profiler, 'queue, P>>,
}
mlprof_core::debug_as_name!([P: Profiler + ?Sized] DeviceScope<'_, '_, P>);

/// An open region of [`profile_device`]; ends when dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct ActiveDeviceScope<'queue> {
    _guard: Guard<ActiveScope, ActiveStreamScope<'queue>>,
}
mlprof_core::debug_as_name!([] ActiveDeviceScope<'_>);
