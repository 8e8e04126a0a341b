//! API for framework hooks: delivers tensor ops, shapes, memory and device work to a [`Profiler`].
//!
//! A framework calls its hook on any thread, and the hook reports the events to the active
//! profiler:
//!
//! | event | function |
//! |---|---|
//! | an op begins and ends | [`OpScope::open`], [`OpScope::close`] |
//! | an op submits work to a device | [`OpScope::open`], [`OpScope::close`] with an [`OpStart::launch`] |
//! | that work has run on the device | [`device_event`] |
//! | a device reports its load or temperature | [`counter()`] |
//! | a driver call becomes known after it was made | [`driver_call`] |
//! | memory is allocated or freed | [`memory`], or [`past_memory`] if it becomes known later |
//! | a device can time submitted work | [`register_device_clock`] |
//! | the properties of a device become known | [`describe_device`], [`declare_device_memory`] |
//! | a framework identifies itself and its training device | [`declare_framework`], [`declare_device`] |
//! | a tensor with readable values is available | [`tensor`] |
//! | the purpose of a memory block becomes known | [`label_memory`] |
//! | all ranks of a run take part in an operation | [`collective`] |
//! | the report needs a note | [`note`] |
//!
//! These functions do not allocate, and return at once, unless an active profiler wants the event.
//! Most frameworks can turn their hooks on and off, and a hook should use this. An
//! [`Instrumentation`] is notified whenever the interest of the active profiler changes.

mod op;
mod parameters;
mod reductions;
mod without_ops;

pub use crate::device_time::{DeviceClock, DeviceWindow, register_device_clock};
#[doc(hidden)]
pub use crate::instrumentation::add_region_delivery;
pub use crate::instrumentation::{
    Instrumentation, InstrumentationHandle, max_pending_regions, set_max_pending_regions,
};
#[doc(hidden)]
pub use mlprof_events::declare_evaluated_outputs;
#[doc(hidden)]
pub use mlprof_events::evaluation::EvaluatedOutputsCounter;
pub use mlprof_events::{
    AllNumbers, Context, CounterSample, DType, DeviceActivity, DeviceCounter, DeviceDescription,
    DeviceEvent, Direction, DriverCall, EvaluatedOutputs, Framework, HostTensor, InputDetail,
    InputDetails, InputsBuilder, KernelConfiguration, KernelLaunch, LEAST_NORMAL_F16,
    MemoryCategory, MemoryChange, MemoryDevice, MemoryLabel, Number, NumberReader, Observation,
    ObservedTensor, OpStart, PastMemoryChange, Reduced, ReducedNumbers, Reduction, RegionSink,
    RegionSinks, ShapeList, TensorNumbers, TensorRole, TensorShape, Timestamp, TimingMethod,
    declare_device, declare_device_memory, declare_framework, declare_module_place,
    describe_device, strided_offsets,
};
pub use op::OpScope;
pub use parameters::{Change, ParametersTold, TellTensor};
pub use reductions::{DeviceReduction, DeviceReductions};
#[doc(hidden)]
pub use reductions::{assert_reduces_as_read, numbers_to_reduce};
#[doc(hidden)]
pub use without_ops::{WITHOUT_OPS_OF, reason_without_ops};
pub use without_ops::{announce_without_ops, declare_ops_of, has_ops_of};

pub(crate) use crate::instrumentation::{STILL_AT_WORK, deliver_regions};
#[cfg(feature = "tensor")]
pub(crate) use without_ops::frameworks_without_ops;

use std::sync::Arc;

pub use crate::active::with_active;
use crate::active::{self, with_active_or_all, with_all};
use crate::{Profiler, instrumentation};
use mlprof_events::{Interest, note_interest_change};

/// Registers `source`. It is notified of the active profiler's current interest and of every later
/// change.
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
pub fn counter(sample: &CounterSample) {
    with_all(Interest::DEVICE, |_, profiler| profiler.observe(&Observation::DeviceCounter(sample)));
}

/// Reports an earlier driver call to all active profilers that record ops.
pub fn driver_call(call: &DriverCall) {
    with_all(Interest::OPS, |is_first, profiler| {
        say_shared(is_first, profiler);
        profiler.observe(&Observation::DriverCall(call));
    });
}

/// Reports an earlier allocation or release of device memory to all active profilers that want
/// memory events.
pub fn past_memory(change: &PastMemoryChange) {
    with_all(Interest::MEMORY, |_, profiler| profiler.observe(&Observation::PastMemory(change)));
}

/// Marks the innermost scope of the calling thread as a collective operation of all ranks.
/// `sequence` is its index in the run: see [`profile_collective!`](crate::profile_collective).
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
pub fn note_of_numbers(text: &str) {
    with_active(Interest::NUMERICS, |profiler| profiler.observe(&Observation::Note(text)));
}

/// Returns the current interest of the active profiler. *Cost*: one relaxed load.
#[inline]
pub fn interest() -> Interest {
    active::interest()
}
