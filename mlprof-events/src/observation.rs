//! What becomes known besides what starts and stops.

use crate::{
    CounterSample, DeviceEvent, DriverCall, Interest, MemoryChange, MemoryLabel, ObservedTensor,
    PastMemoryChange,
};

/// What a hook has come to know, on its way to a profiler. There may be more kinds in time: a profiler
/// takes those that it knows and leaves the others.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// The innermost scope that the calling thread has open is an operation that all ranks take part in, the
    /// so-many-th of the run, counted alike by all of them.
    Collective(u64),
    /// A tensor is at hand on the calling thread, whose numbers can be looked at.
    Tensor(&'told ObservedTensor<'told>),
    /// Something that a reader of the report must know, from a hook: what it cannot see, or how it came by
    /// its numbers. The same text is said once per report.
    Note(&'told str),
    /// A fact about the running stage that all reports show, whatever their profilers want: which
    /// loop runs.
    StageNote(&'told str),
}

impl Observation<'_> {
    /// What a profiler must be interested in to be told. Of a device's events that the device has timed
    /// only those hear that want [`Interest::DEVICE`], which goes with this.
    #[inline]
    pub const fn interest(&self) -> Interest {
        match self {
            Self::Memory(_) | Self::PastMemory(_) | Self::MemoryLabel(_) => Interest::MEMORY,
            Self::DeviceCounter(_) => Interest::DEVICE,
            Self::StageNote(_) => Interest::NONE,
            Self::Tensor(told) => told.role.interest(),
            Self::DeviceEvent(_) | Self::DriverCall(_) | Self::Collective(_) | Self::Note(_) => {
                Interest::OPS
            }
        }
    }
}
