//! Hooks of frameworks: tensor ops, device work and memory on their way into a [`Profiler`].
//!
//! A program that runs its own ops, or that runs work on a device on its own, reports it here:
//!
//! | event | call |
//! |---|---|
//! | an op begins and ends | [`OpScope::open`], [`OpScope::close`] |
//! | a kernel or a copy ran on a device | [`device_event`] |
//! | memory is allocated or freed | [`memory`] |
//! | the use of memory becomes known | [`label_memory`] |
//! | the reader of the report needs a remark | [`note`] |
//!
//! A call allocates nothing and does nothing while no active profiler wants the event.
//!
//! The items without documentation serve mlprof's own plugins: they observe the ops of a framework
//! and may change in any release.

mod framework_tensors;
mod op;
mod reductions;
mod without_ops;

#[doc(hidden)]
pub use crate::device_time::{DeviceClock, DeviceWindow, register_device_clock};
#[doc(hidden)]
pub use crate::instrumentation::{Instrumentation, InstrumentationHandle, add_region_delivery};
pub use crate::instrumentation::{max_pending_regions, set_max_pending_regions};
#[doc(hidden)]
pub use framework_tensors::{
    Change, ObservedStep, TensorFramework, observe_batch, observe_loss, observe_output,
    wants_numerics,
};
#[doc(hidden)]
pub use mlprof_events::{
    AllNumbers, DeviceDescription, EvaluatedOutputs, Framework, HostTensor, InputDetail,
    InputDetails, KernelLaunch, LEAST_NORMAL_F16, Number, NumberReader, Reduced, ReducedNumbers,
    Reduction, RegionSink, RegionSinks, TensorNumbers, declare_device, declare_device_memory,
    declare_evaluated_outputs, declare_framework, declare_module_place, describe_device,
    evaluation::EvaluatedOutputsCounter, strided_offsets,
};
#[doc(hidden)]
pub use mlprof_events::{
    Context, CounterSample, DType, DeviceActivity, DeviceCounter, DeviceEvent, Direction,
    DriverCall, InputsBuilder, KernelConfiguration, MemoryCategory, MemoryChange, MemoryDevice,
    MemoryLabel, Observation, ObservedTensor, OpStart, PastMemoryChange, ShapeList, TensorRole,
    TensorShape, Timestamp, TimingMethod,
};
pub use op::OpScope;
#[doc(hidden)]
pub use reductions::{
    DeviceReduction, DeviceReductions, assert_reduces_as_read, numbers_to_reduce,
};
#[doc(hidden)]
pub use without_ops::{
    WITHOUT_OPS_OF, announce_without_ops, declare_ops_of, has_ops_of, reason_without_ops,
};

pub(crate) use crate::instrumentation::{STILL_AT_WORK, deliver_regions};
#[cfg(feature = "tensor")]
pub(crate) use without_ops::frameworks_without_ops;

use std::sync::Arc;

#[doc(hidden)]
pub use crate::active::with_active;
use crate::active::{self, with_active_or_all, with_all};
use crate::{Profiler, instrumentation};
use mlprof_events::{Interest, note_interest_change};

/// Registers `source`. It is notified of the active profiler's current interest and of every later
/// change.
#[doc(hidden)]
pub fn register(source: Arc<dyn Instrumentation>) -> InstrumentationHandle {
    let handle = instrumentation::add(source.clone());
    with_all(Interest::OPS, |_, profiler| {
        if let Some(note) = source.note(profiler.interest()) {
            profiler.observe(&Observation::Note(&note));
        }
    });
    handle
}

/// Refreshes cached interests after a profiler's [`interest`](crate::Profiler::interest) has
/// changed. All sources are notified if the combined interest of the active profilers differs.
pub fn interest_changed() {
    note_interest_change();
    active::refresh();
}

/// Reports allocated or freed memory to the active profiler, if it wants memory events.
#[inline]
pub fn memory(change: &MemoryChange) {
    with_active(Interest::MEMORY, |profiler| profiler.observe(&Observation::Memory(change)));
}

/// Reports the purpose of a memory block to the active profiler, if it wants memory events.
#[inline]
pub fn label_memory(label: &MemoryLabel) {
    with_active(Interest::MEMORY, |profiler| profiler.observe(&Observation::MemoryLabel(label)));
}

/// Reports a tensor with readable values to the active profiler, if it wants such tensors. The
/// profiler may read the tensor, or have the tensor's device reduce it, before this function
/// returns. If it does neither, the tensor is not read. A tensor returned by an op is reported
/// while that op is open.
#[doc(hidden)]
#[inline]
pub fn tensor(told: &ObservedTensor<'_>) {
    with_active(told.role.interest(), |profiler| profiler.observe(&Observation::Tensor(told)));
}

/// Calls `work` on behalf of the profiler. Events from hooks and scopes on this thread are
/// discarded meanwhile.
pub fn unseen<T>(work: impl FnOnce() -> T) -> T {
    active::unseen(work)
}

/// Reports work that ran on a device to the active profiler. If the device or driver measured the
/// work, the profiler needs [`Interest::DEVICE`]. Otherwise the event hardly shows more than the
/// launch by an op, so it needs [`Interest::OPS`].
#[inline]
pub fn device_event(event: &DeviceEvent) {
    let is_by_device = matches!(event.method, TimingMethod::Device | TimingMethod::Driver);
    let wanted = if is_by_device { Interest::DEVICE } else { Interest::OPS };
    if event.method == TimingMethod::Driver {
        return with_all(wanted, |is_first, profiler| {
            say_shared(is_first, profiler);
            profiler.observe(&Observation::DeviceEvent(event));
        });
    }
    with_active(wanted, |profiler| profiler.observe(&Observation::DeviceEvent(event)));
}

/// Adds a note when a profiler shares driver events with others for the first time. Driver events
/// cover the whole process, and the driver does not report which training caused them.
fn say_shared(is_first: bool, profiler: &dyn Profiler) {
    if is_first {
        let note = "kernels, copies and calls reported by a driver belong to the whole process, in \
                    which more than one profiler was active";
        profiler.observe(&Observation::Note(note));
    }
}

/// Reports a device counter sample to all active profilers that want device events. It may be
/// called at any time on any thread.
#[doc(hidden)]
pub fn counter(sample: &CounterSample) {
    with_all(Interest::DEVICE, |_, profiler| profiler.observe(&Observation::DeviceCounter(sample)));
}

/// Reports an earlier driver call to all active profilers that record ops.
#[doc(hidden)]
pub fn driver_call(call: &DriverCall) {
    with_all(Interest::OPS, |is_first, profiler| {
        say_shared(is_first, profiler);
        profiler.observe(&Observation::DriverCall(call));
    });
}

/// Reports an earlier allocation or release of device memory to all active profilers that want
/// memory events.
#[doc(hidden)]
pub fn past_memory(change: &PastMemoryChange) {
    with_all(Interest::MEMORY, |_, profiler| profiler.observe(&Observation::PastMemory(change)));
}

/// Marks the innermost scope of the calling thread as a collective operation of all ranks.
/// `sequence` is its index in the run: see [`profile_collective!`](crate::profile_collective).
#[doc(hidden)]
#[inline]
pub fn collective(sequence: u64) {
    with_active(Interest::OPS, |profiler| profiler.observe(&Observation::Collective(sequence)));
}

/// Measures an operation in which all ranks of a run take part, such as averaging gradients. It
/// works like [`profile!`](crate::profile!) and also records the operation's sequence number, which
/// starts at 0 and must agree on all ranks. `mlprof merge` uses this number to match the
/// operations. From them it derives the clock offsets between ranks and the rank that the others
/// waited for.
///
/// ```
/// use mlprof_core::profile_collective;
///
/// for step in 0..3 {
///     let _scope = profile_collective!("all_reduce_gradients", step);
///     // … send, and wait for the other ranks …
/// }
/// ```
///
/// *Cost*: that of [`profile!`](crate::profile!), plus one call of the Tensor profiler while it
/// records.
#[macro_export]
macro_rules! profile_collective {
    ($name:expr, $sequence:expr) => {{
        let scope = $crate::profile!($name);
        $crate::hook::collective($sequence);
        scope
    }};
}

/// Adds a note to the report of the active profiler, if it records ops.
pub fn note(text: &str) {
    with_active_or_all(Interest::OPS, |profiler| profiler.observe(&Observation::Note(text)));
}

/// Adds a note to the report of the active profiler, if it records numerics. The note explains why
/// expected tensors are missing.
#[doc(hidden)]
pub fn note_of_numbers(text: &str) {
    with_active(Interest::NUMERICS, |profiler| profiler.observe(&Observation::Note(text)));
}

/// Returns the current interest of the active profiler. *Cost*: one relaxed load.
#[doc(hidden)]
#[inline]
pub fn interest() -> Interest {
    active::interest()
}
