//! Tensor ops of burn on CubeCL devices (wgpu, CUDA, ROCm, Metal, …). This requires the feature
//! `cubecl` and burn's feature `fusion`, through which burn reports its ops.
//!
//! [`.profiler(…)`](crate::ProfileTrainingExt::profiler) installs the hooks for the devices of a
//! training or an evaluation. A hand-written loop calls [`install`]. The hooks cost nothing until a
//! profiler requests ops, as the Tensor profiler does in the active steps of its schedule.
//!
//! # Recorded events
//!
//! burn queues the ops that a program calls. It runs them later, in blocks, on a separate thread.
//! Every op becomes an event when its block runs:
//!
//! | event | meaning |
//! |---|---|
//! | `burn::matmul`, … | one op; the host time to prepare it and to submit its kernels |
//! | `burn::fused[add, relu]` | a fused block of several ops, which are events inside it without times |
//! | `cubecl::launch` | submission of one kernel, inside its op or block |
//! | `cubecl::first_launch` | first submission of a kernel while kernels are timed; includes its compilation |
//! | `cubecl::tuning_launch`, `cubecl::autotune` | one autotuning trial, and all trials of a block |
//! | a kernel | device time if kernels are timed, otherwise only the name |
//!
//! Each op that the program calls is exactly one event, including `empty` and views. Freeing a
//! tensor does not count as an op. The ops that [`NumericsProfiler`](mlprof_core::NumericsProfiler)
//! adds do not count either. Ops have the names of burn's tensor methods.
//!
//! Each op is attributed to the action that was open where the op was called, although it runs on
//! another thread. Each beginning or end of an action sends a message through the op queue. This
//! also works for programs with several threads, because burn keeps a stream per thread, and
//! messages and ops carry it. The exception is cubecl's policy of one stream for all threads, where
//! threads cannot be distinguished.
//!
//! # Forward and backward
//!
//! An op counts as backward in two cases: it is called inside
//! [`profile_backward`](crate::ProfileBackwardExt::profile_backward), or it only exists in the
//! backward pass (`burn::conv2d_weight_backward`). burn gives no other information. Without
//! `profile_backward`, all other ops of `TrainStep::step` count as forward.
//!
//! # Device time
//!
//! With [`DeviceTiming::On`](mlprof_core::tensor::DeviceTiming), each kernel is enclosed in two
//! device timestamps, which are read at the end of the recording. The launching thread waits for
//! cubecl's own thread at each kernel. The host times of launches therefore grow, and gaps appear
//! between kernels that would otherwise follow each other closely. The kernel times themselves are
//! correct. `NamesOnly` adds no timestamps. Autotuning trials are never timed individually, because
//! cubecl times them itself.
//!
//! On CUDA with the feature `cuda`, the driver (CUPTI) reports the same kernels. Both reports are
//! merged, so that each kernel appears once: name and op come from burn; times, stream and launch
//! configuration come from the driver. The two lists are matched in launch order. If their lengths
//! differ, burn's entries are kept, and the report contains a note. `NamesOnly` records no times
//! from either source.
//!
//! *Limitations*:
//!
//! - Compilation: the beginning and end of a kernel's compilation are unknown.
//!   `cubecl::first_launch` shows its approximate cost, but only with device timing; otherwise a
//!   launch only queues the kernel.
//! - Fused blocks: the share of each op in the fused kernel's time is unknown.
//! - Captured graphs: replayed kernels are not visible, except through CUPTI on CUDA. A graph
//!   captured by [`capture`](crate::capture) has one action per replay, which states the number of
//!   hidden ops and the capture location.
//!
//! # Memory
//!
//! burn has no allocation hook. With `profile_memory`, the device's memory use is read at every
//! beginning and end of an action on threads that call ops. The result is the memory that an action
//! as a whole kept or freed. Peaks inside an action, addresses and memory per op are unknown, so
//! parameters cannot be distinguished from other memory. *Cost*: each reading flushes the op queue,
//! which ends the current block, and takes a round trip to the device's thread.
//!
//! # Modules
//!
//! burn's modules have no hook around their forward pass, and its visitors see parameters, not
//! calls. [`layer.profile_layer("conv1", |layer| layer.forward(…))`][profile_layer] attributes the
//! ops of a forward pass to the layer, in its row of the module view. `profile!` or `#[profiled]`
//! do the same for any other code, as an action or a function.
//!
//! [profile_layer]: crate::ProfileLayerExt::profile_layer

#[cfg(feature = "cubecl")]
mod actions;
#[cfg(feature = "cubecl")]
mod inputs;
#[cfg(any(test, feature = "cubecl"))]
mod labels;
#[cfg(feature = "cubecl")]
mod names;
#[cfg(feature = "cubecl")]
mod observer;
#[cfg(feature = "cubecl")]
mod reading;
#[cfg(feature = "cubecl")]
mod session;
#[cfg(feature = "cubecl")]
mod source;
#[cfg(feature = "cubecl")]
mod thread;

use burn::tensor::Device;
#[cfg(feature = "dataset")]
use mlprof_core::hook::WITHOUT_OPS_OF;
#[cfg(feature = "dataset")]
use mlprof_core::{Observation, Profiler};

#[cfg(any(feature = "cubecl", feature = "dataset"))]
use crate::cube::is_cube;
#[cfg(all(feature = "cubecl", feature = "dataset"))]
use crate::cube::is_fused;
use crate::framework;

#[cfg(feature = "cubecl")]
pub use actions::{AUTOTUNE, FIRST_LAUNCH, LAUNCH, TUNING_LAUNCH};
#[cfg(feature = "cubecl")]
pub use labels::FUSED;

/// Registers `device` until the end of the process. Profilers that request ops then receive its
/// ops, and profilers that [measure devices](mlprof_core::SimpleProfiler::measure_devices) receive
/// its device time. Call it in hand-written loops before the first step. Returns `false` if the
/// device is not a CubeCL device, or if this crate was built without its feature `cubecl`.
///
/// ```
/// # use burn::tensor::Device;
/// let device = Device::flex();
/// assert!(!mlprof_burn::ops::install(&device)); // a CPU device without kernels
/// ```
///
/// *Cost*: only the first call per device registers it. The device is not observed while no
/// profiler requests ops.
pub fn install(device: &Device) -> bool {
    framework::declare(std::slice::from_ref(device));
    #[cfg(feature = "cubecl")]
    if is_cube(device) {
        source::watch(device);
        crate::device_time::watch(device);
        return true;
    }
    let _ = device;
    false
}

/// Calls [`install`] for all `devices`, and adds a note to the report for devices whose ops are not
/// visible.
#[cfg(feature = "dataset")]
pub(crate) fn install_all(profiler: &dyn Profiler, devices: &[Device]) {
    for device in devices {
        let is_seen = install(device);
        #[cfg(feature = "cubecl")]
        let is_seen = is_seen && is_fused(device);
        if is_seen || mlprof_core::spliced::has_ops_of("burn") {
            continue;
        }
        let device = device.clone().inner();
        let note = match is_cube(&device) {
            true if cfg!(feature = "cubecl") => format!(
                "{WITHOUT_OPS_OF}{device:?}: burn reports ops only if it may fuse them; build \
                 burn with its feature `fusion`"
            ),
            true => {
                format!("{WITHOUT_OPS_OF}{device:?}: build mlprof-burn with its feature `cubecl`")
            }
            false => format!(
                "{WITHOUT_OPS_OF}{device:?}: burn reports only the ops of CubeCL devices (wgpu, \
                 CUDA, ROCm, Metal, …); for other devices use `mlprof run --ops \
                 burn-flex,burn-autodiff -- …`. The report shows actions and modules"
            ),
        };
        profiler.observe(&Observation::Note(&note));
    }
}

/// Calls `work` and hides the ops that it calls on this thread, because they belong to the
/// profiler. If burn fuses them with ops of the program, the fused block is reported with the
/// program's ops only.
pub(crate) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "cubecl")]
    let _unseen = source::Unseen::begin();
    work()
}
