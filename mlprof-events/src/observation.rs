//! Events other than the start and stop of an action.

use std::sync::Arc;

use crate::{
    CounterSample, DeviceEvent, DriverCall, Interest, MemoryChange, MemoryLabel, ObservedTensor,
    PastMemoryChange, RegionSinks, TrainingControl, UnattributedWork,
};

/// An event other than the start or stop of an action: a training step has ended, memory was
/// allocated, a kernel has run. Hooks and training loops send it to `Profiler::observe`.
///
/// Later versions add variants. A profiler handles the variants that it knows and ignores the
/// others. A profiler that wraps another one forwards all of them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Observation<'told> {
    /// The calling thread has just allocated or freed device memory.
    Memory(&'told MemoryChange),
    /// A thread has allocated or freed device memory. Any thread may report it, long afterwards.
    PastMemory(&'told PastMemoryChange),
    /// A hook reports the purpose of the memory at an address.
    MemoryLabel(&'told MemoryLabel),
    /// A device has run a kernel or another activity. Any thread may report it, long afterwards.
    DeviceEvent(&'told DeviceEvent),
    /// A counter of a device was read. Any thread may report it.
    DeviceCounter(&'told CounterSample),
    /// A thread has called a device's driver. Any thread may report it, long after the call.
    DriverCall(&'told DriverCall),
    /// The calling thread's innermost open scope is an operation of all ranks. The value is its
    /// index among such operations of the run, which all ranks count in the same way.
    Collective(u64),
    /// A tensor on the calling thread, whose elements can be read.
    Tensor(&'told ObservedTensor<'told>),
    /// A note from a hook for the reader of the report, about missing data or the origin of its
    /// numbers. Each text appears once per report.
    Note(&'told str),
    /// A fact about the running stage that all reports show, regardless of their profilers'
    /// interest: which loop runs.
    StageNote(&'told str),
    /// A step of the training loop has ended, and the next one begins. In a fit, steps are training
    /// batches. In a separate validation, test or prediction they are the batches of that stage.
    /// Batches of a validation or a sanity check inside a fit are not steps. The thread that runs
    /// the loop sends it.
    StepEnd,
    /// Work from here to the matching [`StepsResumed`](Self::StepsResumed) belongs to no step, as
    /// for a validation inside a fit. Pauses may be nested. The thread that runs the loop sends it.
    StepsPaused,
    /// The innermost pause has ended.
    StepsResumed,
    /// The training loop is at a point where it can end or repeat its batch: before or after the
    /// optimizer's step. The thread that runs the loop sends it.
    Control(&'told TrainingControl),
    /// The repetition of a batch that a profiler [requested](TrainingControl::rerun_batch) has
    /// ended, with this error if it failed. All profilers receive it.
    RerunEnd(Option<&'told str>),
    /// The profiler is being activated. The counters are those of work that it will not receive,
    /// because the threads that do it belong to no one training: its report should
    /// mention them.
    Unattributed(&'told Arc<UnattributedWork>),
    /// A hook opens a region of a device. A profiler that wants the region's device time
    /// adds a sink.
    RegionOpened(&'told RegionSinks),
}

impl Observation<'_> {
    /// Returns the interest that a profiler must have to receive the observation, or
    /// [`Interest::NONE`] if every profiler receives it. Events timed by a device are sent only to
    /// profilers that also have [`Interest::DEVICE`].
    #[inline]
    pub const fn interest(&self) -> Interest {
        match self {
            Self::Memory(_) | Self::PastMemory(_) | Self::MemoryLabel(_) => Interest::MEMORY,
            Self::DeviceCounter(_) => Interest::DEVICE,
            Self::StageNote(_)
            | Self::StepEnd
            | Self::StepsPaused
            | Self::StepsResumed
            | Self::Control(_)
            | Self::RerunEnd(_)
            | Self::Unattributed(_)
            | Self::RegionOpened(_) => Interest::NONE,
            Self::Tensor(told) => told.role.interest(),
            Self::DeviceEvent(_) | Self::DriverCall(_) | Self::Collective(_) | Self::Note(_) => {
                Interest::OPS
            }
        }
    }
}
