//! Tensor ops of burn on CubeCL devices (wgpu, CUDA, ROCm, Metal, …): feature `cubecl`, beside burn's feature `fusion`,
//! through which burn reports its ops.
//!
//! [`.profiler(…)`](crate::ProfileTrainingExt::profiler) installs it for the devices of a training
//! or an evaluation; a loop of your own calls [`install`]. It costs nothing until a profiler wants
//! ops, as the Tensor profiler does in the active steps of its schedule.
//!
//! # What is seen
//!
//! burn queues the ops that a program calls, and runs them later, in blocks, on a thread of its own.
//! Every op becomes an event when its block runs:
//!
//! | event | what it is |
//! |---|---|
//! | `burn::matmul`, … | one op; the time is the host's: preparing it and handing its kernels over |
//! | `burn::fused[add, relu]` | a block of several ops in one go; the ops are events inside, without times |
//! | `cubecl::launch` | handing one kernel to the device; inside the op or block that it works for |
//! | `cubecl::first_launch` | the same for a kernel that was never launched while kernels were timed: its compilation is in it |
//! | `cubecl::tuning_launch`, `cubecl::autotune` | cubecl tries kernels to find the fastest: one trial, and all of a block's trials |
//! | a kernel | by the device's clock if kernels are timed, else its name alone |
//!
//! There is exactly one event per op that the program called, `empty` and views included; freeing a
//! tensor is no op, and neither is what [`NumericsProfiler`](mlprof_core::NumericsProfiler) has
//! computed beside it. Ops are named as the methods of burn's tensors.
//!
//! Each op is attributed to the action that was open where it was called, although it runs elsewhere:
//! whenever an action begins or ends, a message takes the same way as the ops. Programs with several
//! threads need nothing special: burn keeps a stream per thread, and messages and ops carry it. (With
//! cubecl's policy of one stream for all threads they cannot be told apart.)
//!
//! # Forward and backward
//!
//! An op is backward if it was called inside
//! [`profile_backward`](crate::ProfileBackwardExt::profile_backward), or if it is one that only
//! backward has (`burn::conv2d_weight_backward`). burn does not say more: without
//! `profile_backward` the other ops of `TrainStep::step` all count as forward.
//!
//! # Device time
//!
//! With [`DeviceTiming::On`](mlprof_core::tensor::DeviceTiming) each kernel is put between two
//! timestamps of the device, read at the end of the recording. The thread that launches waits for
//! cubecl's own thread at each kernel, so the launches' host times grow, and kernels are apart that
//! would otherwise follow each other closely; their own times are right. With `NamesOnly` nothing of
//! this happens. Trials of kernels are never timed one by one: cubecl times them itself.
//!
//! On CUDA, with the feature `cuda`, the driver tells of the same kernels (CUPTI). Each is kept once: with
//! name and op as burn has them, times, stream and launch configuration as the driver has. The first one
//! launched here is the first one there; should the two not count alike, burn's stay, and the report
//! says so. With `NamesOnly` neither is asked for times.
//!
//! *Not known*: when the compilation of a kernel begins and ends (see `cubecl::first_launch`; without
//! timing not even that, since a launch is then only queued); which op of a fused block needs which
//! part of its kernel; kernels that a captured graph replays (CUPTI sees those on CUDA). A graph that is captured by
//! [`capture`](crate::capture) has an action per replay, which says how many ops it hides and where they were captured.
//!
//! # Memory
//!
//! burn has no hook for allocations. With `profile_memory` the device is asked what it holds at every
//! beginning and end of an action on threads that call ops: what is seen is what an action as a whole
//! kept or freed; no peak inside it, no addresses, nothing per op, and so nothing about which memory
//! is a parameter. *Cost*: the queue is run empty each time, so that blocks end there, and a round
//! trip to the device's thread.
//!
//! # Modules
//!
//! burn's modules have no hook around their forward, and its visitors see parameters, not calls.
//! [`layer.profile_layer("conv1", |layer| layer.forward(…))`][profile_layer] attributes the ops of
//! a forward to the layer: they are in its row of the module view. `profile!` or `#[profiled]` do
//! the same for any other piece of code, as an action or a function.
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

/// Has the ops of `device` recorded by every profiler that wants them, and its time by every profiler that
/// [measures devices](mlprof_core::SimpleProfiler::measure_devices), from here to the end of the
/// process; for loops of your own, before the first step. False if there is nothing to see: the
/// device is none of CubeCL's, or this crate was built without its feature `cubecl`.
///
/// ```
/// # use burn::tensor::Device;
/// let device = Device::flex();
/// assert!(!mlprof_burn::ops::install(&device)); // runs in place, without kernels
/// ```
///
/// *Cost*: once; later calls find the device known. Nothing is observed while no profiler wants ops.
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

/// [`install`] for all of `devices`, with a note in the report for those whose ops are not seen.
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
                "{WITHOUT_OPS_OF}{device:?}: burn reports ops only where it may fuse them: build it with \
                 its feature `fusion` to see them"
            ),
            true => format!(
                "{WITHOUT_OPS_OF}{device:?}: build mlprof-burn with its feature `cubecl` to see them"
            ),
            false => format!(
                "{WITHOUT_OPS_OF}{device:?}: burn tells of the ops of CubeCL devices only (wgpu, CUDA, \
                 ROCm, Metal, …); here they need `mlprof run --ops burn-flex,burn-autodiff -- …`. \
                 Actions and modules are shown"
            ),
        };
        profiler.observe(&Observation::Note(&note));
    }
}

/// Calls `work`; the ops that it calls on this thread are the profiler's own, of which no event tells. Where burn fuses them with ops of
/// the program, the block is that of the program's ops.
pub(crate) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "cubecl")]
    let _unseen = source::Unseen::begin();
    work()
}
