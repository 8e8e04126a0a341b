//! What becomes known besides what starts and stops.

use std::sync::Arc;

use crate::{
    CounterSample, DeviceEvent, DriverCall, Interest, MemoryChange, MemoryLabel, ObservedTensor,
    PastMemoryChange, RegionSinks, TrainingControl, UnattributedWork,
};

/// An event other than the start or stop of an action: a training step has ended, memory was
/// allocated, a kernel has run. Hooks and training loops send it to `Profiler::observe`.
///
/// Later versions add variants. A profiler handles the variants it knows and ignores the others; a
/// profiler that wraps another one passes all of them on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Observation<'told> {
    /// The calling thread allocated or freed memory of a device just now.
    Memory(&'told MemoryChange),
    /// A thread has allocated or freed memory of a device. Told by any thread, long afterwards.
    PastMemory(&'told PastMemoryChange),
    /// What the memory at an address is for, from a hook that knows.
    MemoryLabel(&'told MemoryLabel),
    /// Something ran on a device. Told by any thread, long after it ran.
    DeviceEvent(&'told DeviceEvent),
    /// A device was asked what one of its counters shows. Told by any thread.
    DeviceCounter(&'told CounterSample),
    /// A thread has called a device's driver. Told by any thread, long after the call.
    DriverCall(&'told DriverCall),
    /// The innermost scope that the calling thread has open is an operation that all ranks take
    /// part in, the so-many-th of the run, counted alike by all of them.
    Collective(u64),
    /// A tensor is at hand on the calling thread, whose numbers can be looked at.
    Tensor(&'told ObservedTensor<'told>),
    /// Something that a reader of the report must know, from a hook: what it cannot see, or how it
    /// came by its numbers. The same text is said once per report.
    Note(&'told str),
    /// A fact about the running stage that all reports show, whatever their profilers want: which
    /// loop runs.
    StageNote(&'told str),
    /// A step of the training loop has ended and the next one begins. In a fit, steps are training
    /// batches; in a validation, test or prediction of its own they are the batches of that stage.
    /// Batches of a validation or a sanity check inside a fit are not steps. Sent by the thread
    /// that runs the loop.
    StepEnd,
    /// The work from here to the matching [`StepsResumed`](Self::StepsResumed) belongs to no step:
    /// a validation inside a fit. Pauses nest. Sent by the thread that runs the loop.
    StepsPaused,
    /// The innermost pause has ended.
    StepsResumed,
    /// The training loop is at a point where it can end, or run its batch again: before the
    /// optimizer's step and after it. Sent by the thread that runs the loop.
    Control(&'told TrainingControl),
    /// The batch that a profiler [asked to see again](TrainingControl::rerun_batch) has run, or has
    /// failed with this error. All profilers receive it.
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
    /// Returns the interest that a profiler must have to receive the observation;
    /// [`Interest::NONE`] if every profiler receives it. Events that a device has timed go only to
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
