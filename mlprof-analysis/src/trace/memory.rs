//! What was allocated and freed.

/// Memory was taken or given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryChange {
    /// In nanoseconds of the trace's own time.
    pub time: i64,
    /// The thread, in [`Trace::tracks`](super::Trace::tracks), if anything else is known of it.
    pub track: Option<u32>,
    /// The device; `None`: the host.
    pub device: Option<u32>,
    /// Where.
    pub address: u64,
    /// How much; what is given back is less than nothing.
    pub bytes: i64,
    /// Bytes that are taken after it, there.
    pub allocated: u64,
    /// Bytes that the allocator has of the system after it, there; 0 if it does not say.
    pub reserved: u64,
}
