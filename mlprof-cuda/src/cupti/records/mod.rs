//! Parser for CUPTI activity records.
//!
//! CUPTI adds fields at the end of a record and never moves existing ones. All versions from 12.9
//! to 13.5 have the same layout of the fields read here. Enum values remain integers, so values
//! added by later versions do no harm. Times are CUPTI's, in nanoseconds, and 0 if CUPTI does not
//! know them.

mod convert;
mod layout;

use std::ffi::c_char;

use layout::Prefix;

/// Activity record. *Cost* of parsing: a copy of at most 160 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Record {
    /// Execution of a kernel.
    Kernel(Kernel),
    /// Copy of memory by one device or between two devices.
    Memcpy(Memcpy),
    /// Fill of memory with one value.
    Memset(Memset),
    /// Call of the CUDA runtime or driver API.
    Api(Api),
    /// Wait of the host or of a stream.
    Synchronization(Synchronization),
    /// Overhead of CUDA or CUPTI.
    Overhead(Overhead),
    /// Allocation or release of memory.
    Memory(Memory),
    /// Assignment of an external correlation id to a call.
    ExternalCorrelation(ExternalCorrelation),
    /// Start or end of an NVTX range, or an NVTX mark.
    Marker(Marker),
    /// Record of another kind, given by CUPTI's number.
    Other(u32),
}

/// Error for a record with fewer bytes than the prefix of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a CUPTI record is truncated: it has {available} of at least {needed} bytes")]
pub(crate) struct Truncated {
    /// Number of bytes that the prefix has.
    pub(crate) needed: usize,
    /// Number of available bytes.
    pub(crate) available: usize,
}

/// Execution of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kernel {
    /// Start on the device in nanoseconds.
    pub(crate) start: u64,
    /// End on the device in nanoseconds.
    pub(crate) end: u64,
    /// CUDA device id.
    pub(crate) device: u32,
    /// CUPTI's context id.
    pub(crate) context: u32,
    /// CUPTI's stream id.
    pub(crate) stream: u32,
    /// Correlation id, shared with the call that launched the kernel.
    pub(crate) correlation: u32,
    /// Number of blocks in each dimension.
    pub(crate) grid: [u32; 3],
    /// Number of threads per block in each dimension.
    pub(crate) block: [u32; 3],
    /// Number of registers per thread.
    pub(crate) registers_per_thread: u32,
    /// Static shared memory per block in bytes.
    pub(crate) static_shared_memory: u32,
    /// Dynamic shared memory per block in bytes, as requested by the launch.
    pub(crate) dynamic_shared_memory: u32,
    /// Local memory per thread in bytes.
    pub(crate) local_memory_per_thread: u32,
    /// CUPTI's id of the graph that launched the kernel, or 0.
    pub(crate) graph: u32,
    /// Id of the graph node, or 0.
    pub(crate) graph_node: u64,
    /// Mangled name as a C string, or null. CUPTI owns it, so its lifetime depends on CUPTI.
    pub(crate) name: *const c_char,
}

impl Kernel {
    /// Returns the shared memory per block in bytes.
    pub(crate) fn shared_memory(&self) -> u32 {
        self.static_shared_memory.saturating_add(self.dynamic_shared_memory)
    }
}

/// Copy of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memcpy {
    /// Direction, a value of `CUpti_ActivityMemcpyKind`.
    pub(crate) copy_kind: u8,
    /// Source memory kind, a value of `CUpti_ActivityMemoryKind`.
    pub(crate) source_kind: u8,
    /// Destination memory kind, a value of `CUpti_ActivityMemoryKind`.
    pub(crate) destination_kind: u8,
    /// Number of copied bytes.
    pub(crate) bytes: u64,
    /// Start in nanoseconds.
    pub(crate) start: u64,
    /// End in nanoseconds.
    pub(crate) end: u64,
    /// CUDA id of the copying device.
    pub(crate) device: u32,
    /// CUPTI's context id.
    pub(crate) context: u32,
    /// CUPTI's stream id.
    pub(crate) stream: u32,
    /// Correlation id, shared with the call that requested the copy.
    pub(crate) correlation: u32,
    /// Source and destination of a copy between two devices.
    pub(crate) peers: Option<Peers>,
    /// CUPTI's id of the graph that launched the copy, or 0.
    pub(crate) graph: u32,
    /// Id of the graph node, or 0.
    pub(crate) graph_node: u64,
}

/// CUDA ids of the two devices of a peer-to-peer copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peers {
    /// Source device id.
    pub(crate) source_device: u32,
    /// Destination device id.
    pub(crate) destination_device: u32,
}

/// Fill of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memset {
    /// Fill value.
    pub(crate) value: u32,
    /// Number of filled bytes.
    pub(crate) bytes: u64,
    /// Memory kind, a value of `CUpti_ActivityMemoryKind`.
    pub(crate) memory_kind: u16,
    /// Start in nanoseconds.
    pub(crate) start: u64,
    /// End in nanoseconds.
    pub(crate) end: u64,
    /// CUDA device id.
    pub(crate) device: u32,
    /// CUPTI's context id.
    pub(crate) context: u32,
    /// CUPTI's stream id.
    pub(crate) stream: u32,
    /// Correlation id, shared with the call that requested the fill.
    pub(crate) correlation: u32,
    /// CUPTI's id of the graph that launched the fill, or 0.
    pub(crate) graph: u32,
    /// Id of the graph node, or 0.
    pub(crate) graph_node: u64,
}

/// Call of the CUDA runtime or driver API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Api {
    /// `true` for the driver API, `false` for the runtime API.
    pub(crate) is_driver: bool,
    /// CUPTI's callback id of the function. The driver and runtime APIs have separate ids.
    pub(crate) callback: u32,
    /// Start of the call in nanoseconds.
    pub(crate) start: u64,
    /// End of the call in nanoseconds.
    pub(crate) end: u64,
    /// Id of the calling process.
    pub(crate) process: u32,
    /// Id of the calling thread, in the configured kind of thread ids.
    pub(crate) thread: u32,
    /// Correlation id, shared with the launched work.
    pub(crate) correlation: u32,
    /// Return value: a `CUresult` or a `cudaError_t`, which is 0 on success.
    pub(crate) return_value: u32,
}

/// Wait of the host or of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Synchronization {
    /// Kind of wait, a value of `CUpti_ActivitySynchronizationType`.
    pub(crate) synchronization_kind: u32,
    /// Start in nanoseconds.
    pub(crate) start: u64,
    /// End in nanoseconds.
    pub(crate) end: u64,
    /// Correlation id, shared with the call.
    pub(crate) correlation: u32,
    /// CUPTI's context id.
    pub(crate) context: u32,
    /// CUPTI's id of the stream that waited or was waited for, if there is one.
    pub(crate) stream: Option<u32>,
    /// CUPTI's id of the awaited event, if there is one.
    pub(crate) event: Option<u32>,
    /// Result as a `CUresult`, which is 0 on success.
    pub(crate) return_value: u32,
}

/// Overhead of CUDA or CUPTI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// Kind of overhead, a value of `CUpti_ActivityOverheadKind`.
    pub(crate) overhead_kind: u32,
    /// Kind of the affected object, a value of `CUpti_ActivityObjectKind`.
    pub(crate) object_kind: u32,
    /// Thread id, if the affected object is a thread.
    pub(crate) thread: Option<u32>,
    /// Start in nanoseconds.
    pub(crate) start: u64,
    /// End in nanoseconds.
    pub(crate) end: u64,
}

/// Allocation or release of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Operation, a value of `CUpti_ActivityMemoryOperationType`: 1 is an allocation, 2 is a
    /// release.
    pub(crate) operation: u32,
    /// Memory kind, a value of `CUpti_ActivityMemoryKind`.
    pub(crate) memory_kind: u32,
    /// Correlation id, shared with the call.
    pub(crate) correlation: u32,
    /// Address of the memory.
    pub(crate) address: u64,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// Start of the operation in nanoseconds.
    pub(crate) timestamp: u64,
    /// CUDA device id.
    pub(crate) device: u32,
    /// CUPTI's context id, or 0.
    pub(crate) context: u32,
    /// CUPTI's id of the stream that orders an asynchronous operation.
    pub(crate) stream: Option<u32>,
    /// `true` if the operation is asynchronous, in the order of a stream.
    pub(crate) is_async: bool,
    /// Memory pool of the allocation, if it is a pool of this process.
    pub(crate) pool: Option<Pool>,
}

/// Usage of a memory pool in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Size of the pool in bytes.
    pub(crate) size: u64,
    /// Used part of `size` in bytes.
    pub(crate) utilized: u64,
}

/// External correlation id of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExternalCorrelation {
    /// Kind of the id, a value of `CUpti_ExternalCorrelationKind`.
    pub(crate) external_kind: u32,
    /// External correlation id.
    pub(crate) external: u64,
    /// Correlation id, shared with the call.
    pub(crate) correlation: u32,
}

/// Start or end of an NVTX range, or an NVTX mark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Marker {
    /// Kind of marker as flags of `CUpti_ActivityFlag`: 1 is a mark, 2 is a start, 4 is an end.
    pub(crate) flags: u32,
    /// Time in nanoseconds.
    pub(crate) timestamp: u64,
    /// Id of the range, shared by its start and end.
    pub(crate) id: u32,
    /// Kind of the affected object, a value of `CUpti_ActivityObjectKind`.
    pub(crate) object_kind: u32,
    /// Thread id, if the affected object is a thread.
    pub(crate) thread: Option<u32>,
    /// Name of the range as a C string, or null for an end. CUPTI owns it, as it owns
    /// [`Kernel::name`].
    pub(crate) name: *const c_char,
    /// Name of the domain as a C string, or null for the default domain. CUPTI owns it, as it owns
    /// [`Kernel::name`].
    pub(crate) domain: *const c_char,
}

/// Record kinds, with the values of `CUpti_ActivityKind`.
pub(crate) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const MARKER: u32 = 12;
    pub(crate) const OVERHEAD: u32 = 17;
    pub(crate) const MEMCPY2: u32 = 22;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
    pub(crate) const EXTERNAL_CORRELATION: u32 = 39;
    pub(crate) const MEMORY2: u32 = 49;
}

/// Parses the record at the start of `bytes`. The bytes may extend beyond the record and need not
/// be aligned. Returns an error if they are shorter than the prefix of the record's kind. For an
/// unknown kind, only its number is read.
pub(crate) fn read(bytes: &[u8]) -> Result<Record, Truncated> {
    let layout::Head { kind } = prefix(bytes)?;
    Ok(match kind {
        kind::KERNEL | kind::CONCURRENT_KERNEL => {
            Record::Kernel(prefix::<layout::Kernel>(bytes)?.into())
        }
        kind::MEMCPY => Record::Memcpy(prefix::<layout::Memcpy>(bytes)?.into()),
        kind::MEMCPY2 => Record::Memcpy(prefix::<layout::MemcpyPeer>(bytes)?.into()),
        kind::MEMSET => Record::Memset(prefix::<layout::Memset>(bytes)?.into()),
        kind::DRIVER | kind::RUNTIME => Record::Api(prefix::<layout::Api>(bytes)?.into()),
        kind::SYNCHRONIZATION => {
            Record::Synchronization(prefix::<layout::Synchronization>(bytes)?.into())
        }
        kind::OVERHEAD => Record::Overhead(prefix::<layout::Overhead>(bytes)?.into()),
        kind::MEMORY2 => Record::Memory(prefix::<layout::Memory>(bytes)?.into()),
        kind::EXTERNAL_CORRELATION => {
            Record::ExternalCorrelation(prefix::<layout::ExternalCorrelation>(bytes)?.into())
        }
        kind::MARKER => Record::Marker(prefix::<layout::Marker>(bytes)?.into()),
        kind => Record::Other(kind),
    })
}

fn prefix<P: Prefix>(bytes: &[u8]) -> Result<P, Truncated> {
    let (needed, available) = (size_of::<P>(), bytes.len());
    if available < needed {
        return Err(Truncated { needed, available });
    }
    // SAFETY: `bytes` contains at least `size_of::<P>()` initialised bytes. `read_unaligned`
    // requires no alignment. Any bytes are a valid `P`, as `Prefix` guarantees.
    Ok(unsafe { bytes.as_ptr().cast::<P>().read_unaligned() })
}

#[cfg(all(test, not(loom)))]
mod bindings;
#[cfg(all(test, not(loom)))]
mod fixtures;
#[cfg(all(test, not(loom)))]
mod fuzz;
#[cfg(all(test, not(loom)))]
mod tests;
