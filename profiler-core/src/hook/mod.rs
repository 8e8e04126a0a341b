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

mod op;
mod parameters;
mod reductions;
mod without_ops;

#[doc(hidden)]
pub use crate::device_time::{DeviceClock, DeviceWindow, register_device_clock};
#[doc(hidden)]
pub use crate::instrumentation::{Instrumentation, InstrumentationHandle, add_region_delivery};
pub use crate::instrumentation::{max_pending_regions, set_max_pending_regions};
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
pub use parameters::{Change, ParametersTold, TellTensor};
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

/// From here on `source` is told what the active profiler wants, beginning with what it wants now.
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

/// For profilers whose [`interest`](crate::Profiler::interest) has changed: whoever has asked them asks
/// again, and all sources are told if the active one's answer is a new one.
pub fn interest_changed() {
    note_interest_change();
    active::refresh();
}

/// Tells the active profiler of allocated or freed memory, if it wants to know.
#[inline]
pub fn memory(change: &MemoryChange) {
    with_active(Interest::MEMORY, |profiler| profiler.observe(&Observation::Memory(change)));
}

/// Tells the active profiler what memory is for, if it wants to know.
#[inline]
pub fn label_memory(label: &MemoryLabel) {
    with_active(Interest::MEMORY, |profiler| profiler.observe(&Observation::MemoryLabel(label)));
}

/// Tells the active profiler of a tensor whose numbers it may look at, if it wants to know. The tensor is read, or reduced by the
/// device that it is on, only if the profiler does so, before this returns. What an op has returned is told while the op is open.
#[doc(hidden)]
#[inline]
pub fn tensor(told: &ObservedTensor<'_>) {
    with_active(told.role.interest(), |profiler| profiler.observe(&Observation::Tensor(told)));
}

/// Calls `work`, which is the profiler's own: whatever hooks and scopes on this thread tell meanwhile is told to nobody.
pub fn unseen<T>(work: impl FnOnce() -> T) -> T {
    active::unseen(work)
}

/// Tells the active profiler what ran on a device, if it wants to know. What was not timed by the
/// device says little more than that an op launched it: whoever wants ops is told.
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

/// A driver tells of the whole process, and not which training it was.
fn say_shared(is_first: bool, profiler: &dyn Profiler) {
    if is_first {
        let note = "kernels, copies and calls that a driver tells of are those of the whole process, in \
             which more than one profiler was active";
        profiler.observe(&Observation::Note(note));
    }
}

/// Tells the active profiler what a device's counter showed, if it wants to know of devices. May be
/// called at any time, by any thread.
#[doc(hidden)]
pub fn counter(sample: &CounterSample) {
    with_all(Interest::DEVICE, |_, profiler| profiler.observe(&Observation::DeviceCounter(sample)));
}

/// Tells the active profiler of a call to a driver that was made before, if it records ops.
#[doc(hidden)]
pub fn driver_call(call: &DriverCall) {
    with_all(Interest::OPS, |is_first, profiler| {
        say_shared(is_first, profiler);
        profiler.observe(&Observation::DriverCall(call));
    });
}

/// Tells the active profiler of memory of a device that was allocated or freed before, if it wants to
/// know.
#[doc(hidden)]
pub fn past_memory(change: &PastMemoryChange) {
    with_all(Interest::MEMORY, |_, profiler| profiler.observe(&Observation::PastMemory(change)));
}

/// Tells the active profiler that the innermost scope of the calling thread is an operation that all ranks take
/// part in, the so-many-th of the run: see [`profile_collective!`](crate::profile_collective).
#[doc(hidden)]
#[inline]
pub fn collective(sequence: u64) {
    with_active(Interest::OPS, |profiler| profiler.observe(&Observation::Collective(sequence)));
}

/// [`profile!`](crate::profile!) for an operation that all ranks of a run take part in, such as averaging
/// gradients, and its number in the run: the first is 0, and all ranks count alike. By it `mlprof merge` knows
/// which of them belong together, and so how the ranks' clocks differ and who was waited for.
///
/// ```
/// use mlprof_core::profile_collective;
///
/// for step in 0..3 {
///     let _scope = profile_collective!("all_reduce_gradients", step);
///     // … send, and wait for the others …
/// }
/// ```
///
/// *Cost*: as [`profile!`](crate::profile!); and, while the Tensor profiler records, another call of it.
#[macro_export]
macro_rules! profile_collective {
    ($name:expr, $sequence:expr) => {{
        let scope = $crate::profile!($name);
        $crate::hook::collective($sequence);
        scope
    }};
}

/// Tells the active profiler what a reader of its report must know, if it records ops.
pub fn note(text: &str) {
    with_active_or_all(Interest::OPS, |profiler| profiler.observe(&Observation::Note(text)));
}

/// Tells the active profiler why it hears of no tensor where its user may expect one, if it looks at numbers.
#[doc(hidden)]
pub fn note_of_numbers(text: &str) {
    with_active(Interest::NUMERICS, |profiler| profiler.observe(&Observation::Note(text)));
}

/// What the active profiler wants now. *Cost*: one relaxed load.
#[doc(hidden)]
#[inline]
pub fn interest() -> Interest {
    active::interest()
}
