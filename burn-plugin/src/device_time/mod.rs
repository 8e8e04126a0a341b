//! Device time of CubeCL devices (wgpu, CUDA, ROCm, Metal). It covers regions that a program marks,
//! and actions if the profiler [measures devices](mlprof_core::SimpleProfiler::measure_devices).
//!
//! * `device` lists the devices, and `clock` times actions on them.
//! * `window` is one open measurement on one device, and `region` holds its data.
//! * `pending` holds closed windows until the device has delivered their times.

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

/// The queue that [`profile_device`] times: a burn device or, with the feature `cuda`, a CUDA
/// stream.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Queue<'queue> {
    /// The work that the calling thread submits to a device.
    Device(&'queue Device),
    /// A CUDA stream that burn did not create.
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

/// Adds regions on burn's devices to every profiler, owned or behind `Arc<dyn Profiler>`.
pub trait DeviceProfilerExt: Profiler + sealed::Sealed {
    /// Measures a region until the returned guard is dropped. Bind the guard to a name. On the
    /// host, it measures like [`profile`](ProfilerExt::profile). On the device, it measures from
    /// the first to the last work that the thread submits while the guard lives.
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
    /// // A GPU also has a row `forward [device]`. On Flex, a note states why it is missing.
    /// assert!(profiler.summary().contains("forward"));
    /// ```
    ///
    /// The measurement does not wait for the device. The times are read for the report. In a trace,
    /// a region is placed at the host time at which it was opened.
    ///
    /// *Cost*: the op queue is flushed at both ends, so that no fused block crosses them. In
    /// addition, each region takes two messages to burn's own thread, or two round trips to
    /// cubecl's thread without burn's feature `fusion`. On wgpu, each end also submits the recorded
    /// commands. At most [`max_pending_regions`](mlprof_core::hook::max_pending_regions) regions
    /// can be pending.
    ///
    /// *Limitations*: the action is measured only on the host in these cases, and the report shows
    /// how often and why:
    ///
    /// - The device has no timestamps (Flex, NdArray, cubecl's CPU, some GPUs under wgpu).
    /// - A graph is being captured.
    /// - Too many regions are pending.
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

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<P: super::Profiler + ?Sized> Sealed for P {}
}

/// Calls [`DeviceProfilerExt::profile_device`] on the [active](mlprof_core::activate) profiler.
/// *Cost*: one relaxed load without an active profiler.
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

/// Opens a region. If it cannot be timed, reports the reason to `sink` and returns `None`.
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

/// An action on the host and its device region. Fields drop in declaration order, so that the
/// action ends before the region and does not include the cost of ending it.
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
/// Placeholder for builds without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
type StreamScope<'profiler, 'queue, P> =
    std::marker::PhantomData<(&'profiler P, &'queue (), *const ())>;
/// Placeholder for builds without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
type ActiveStreamScope<'queue> = std::marker::PhantomData<(&'queue (), *const ())>;

/// An open region of [`DeviceProfilerExt::profile_device`]. It ends when dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct DeviceScope<'profiler, 'queue, P: Profiler + ?Sized = dyn Profiler> {
    _guard: Guard<Scope<'profiler, P>, StreamScope<'profiler, 'queue, P>>,
}
mlprof_core::debug_as_name!([P: Profiler + ?Sized] DeviceScope<'_, '_, P>);

/// An open region of [`profile_device`]. It ends when dropped.
#[must_use = "a region ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct ActiveDeviceScope<'queue> {
    _guard: Guard<ActiveScope, ActiveStreamScope<'queue>>,
}
mlprof_core::debug_as_name!([] ActiveDeviceScope<'_>);
