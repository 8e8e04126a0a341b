//! Memory allocations and frees.

/// Allocation or free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryChange {
    /// Time of the change in nanoseconds of the trace's own time.
    pub time: i64,
    /// Track of the thread in [`Trace::tracks`](super::Trace::tracks). `None` if the thread has no
    /// slices.
    pub track: Option<u32>,
    /// Device id. `None` for host memory.
    pub device: Option<u32>,
    /// Address of the memory.
    pub address: u64,
    /// Size in bytes. Negative for a free.
    pub bytes: i64,
    /// Bytes allocated on that device or the host after the change.
    pub allocated: u64,
    /// Bytes that the allocator has reserved from the system there after the change. 0 if it is
    /// unknown.
    pub reserved: u64,
}
