//! Records of activity, read from the bytes that CUPTI has written them as.
//!
//! CUPTI adds fields at the end of a record, and moves none: from 12.9 to 13.5 all versions agree on
//! what is read here. Numbers that stand for kinds stay numbers, so one that a later version adds does
//! no harm. Times are CUPTI's, in nanoseconds; 0 where it could not tell.

mod convert;
mod layout;

use std::ffi::c_char;

use layout::Prefix;

/// One record. *Cost* of reading one: a copy of at most 160 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Record {
    /// A kernel has run.
    Kernel(Kernel),
    /// Memory was copied, by a device or between two.
    Memcpy(Memcpy),
    /// Memory was filled with one value.
    Memset(Memset),
    /// A call of CUDA's runtime or driver.
    Api(Api),
    /// The host, or a stream, has waited.
    Synchronization(Synchronization),
    /// Time that CUDA or CUPTI took for itself.
    Overhead(Overhead),
    /// Memory was allocated or released.
    Memory(Memory),
    /// A number of ours belongs to a call.
    ExternalCorrelation(ExternalCorrelation),
    /// A range of NVTX begins or ends, or a mark.
    Marker(Marker),
    /// Any other kind, by CUPTI's number of it.
    Other(u32),
}

/// There are fewer bytes than what a record of this kind begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record of CUPTI is cut off: {available} bytes of at least {needed}")]
pub(crate) struct Truncated {
    /// So many bytes are read of such a record.
    pub(crate) needed: usize,
    /// So many there are.
    pub(crate) available: usize,
}

/// A kernel that has run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kernel {
    /// When it began on the device.
    pub(crate) start: u64,
    /// When it had ended there.
    pub(crate) end: u64,
    /// CUDA's number of the device.
    pub(crate) device: u32,
    /// CUPTI's number of the context.
    pub(crate) context: u32,
    /// CUPTI's number of the stream.
    pub(crate) stream: u32,
    /// The call that launched it has the same.
    pub(crate) correlation: u32,
    /// How many blocks in each direction.
    pub(crate) grid: [u32; 3],
    /// How many threads a block has in each direction.
    pub(crate) block: [u32; 3],
    /// Registers that each thread has.
    pub(crate) registers_per_thread: u32,
    /// Bytes of shared memory per block that the kernel is compiled with.
    pub(crate) static_shared_memory: u32,
    /// Bytes of shared memory per block that its launch asked for.
    pub(crate) dynamic_shared_memory: u32,
    /// Bytes of local memory that each thread has.
    pub(crate) local_memory_per_thread: u32,
    /// CUPTI's number of the graph that launched it, 0 for none.
    pub(crate) graph: u32,
    /// The node in that graph, 0 for none.
    pub(crate) graph_node: u64,
    /// Its mangled name, which ends in a zero; null if there is none. CUPTI's: how long it is good
    /// for is for whoever has the buffer to know.
    pub(crate) name: *const c_char,
}

impl Kernel {
    /// Bytes of shared memory of each block.
    pub(crate) fn shared_memory(&self) -> u32 {
        self.static_shared_memory.saturating_add(self.dynamic_shared_memory)
    }
}

/// A copy of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memcpy {
    /// From what to what, as `CUpti_ActivityMemcpyKind` numbers it.
    pub(crate) copy_kind: u8,
    /// What kind of memory was read, as `CUpti_ActivityMemoryKind` numbers it.
    pub(crate) source_kind: u8,
    /// What kind of memory was written.
    pub(crate) destination_kind: u8,
    /// How many.
    pub(crate) bytes: u64,
    /// When it began.
    pub(crate) start: u64,
    /// When it had ended.
    pub(crate) end: u64,
    /// CUDA's number of the device that copied.
    pub(crate) device: u32,
    /// CUPTI's number of the context.
    pub(crate) context: u32,
    /// CUPTI's number of the stream.
    pub(crate) stream: u32,
    /// The call that asked for it has the same.
    pub(crate) correlation: u32,
    /// The two devices, for a copy from one's memory to another's.
    pub(crate) peers: Option<Peers>,
    /// CUPTI's number of the graph that launched it, 0 for none.
    pub(crate) graph: u32,
    /// The node in that graph, 0 for none.
    pub(crate) graph_node: u64,
}

/// The two devices of a copy between them, by CUDA's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peers {
    /// Whose memory was read.
    pub(crate) source_device: u32,
    /// Whose memory was written.
    pub(crate) destination_device: u32,
}

/// Memory that a device has filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memset {
    /// With what.
    pub(crate) value: u32,
    /// How many bytes.
    pub(crate) bytes: u64,
    /// What kind of memory, as `CUpti_ActivityMemoryKind` numbers it.
    pub(crate) memory_kind: u16,
    /// When it began.
    pub(crate) start: u64,
    /// When it had ended.
    pub(crate) end: u64,
    /// CUDA's number of the device.
    pub(crate) device: u32,
    /// CUPTI's number of the context.
    pub(crate) context: u32,
    /// CUPTI's number of the stream.
    pub(crate) stream: u32,
    /// The call that asked for it has the same.
    pub(crate) correlation: u32,
    /// CUPTI's number of the graph that launched it, 0 for none.
    pub(crate) graph: u32,
    /// The node in that graph, 0 for none.
    pub(crate) graph_node: u64,
}

/// A call of CUDA's runtime or of its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Api {
    /// Of the driver, not of the runtime.
    pub(crate) is_driver: bool,
    /// CUPTI's number of the function: driver and runtime have their own each.
    pub(crate) callback: u32,
    /// When it was called.
    pub(crate) start: u64,
    /// When it had returned.
    pub(crate) end: u64,
    /// The process that called.
    pub(crate) process: u32,
    /// The thread that called, as CUPTI was told to number threads.
    pub(crate) thread: u32,
    /// What it has launched has the same.
    pub(crate) correlation: u32,
    /// What it returned: a `CUresult` or a `cudaError_t`, 0 if it has worked.
    pub(crate) return_value: u32,
}

/// A wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Synchronization {
    /// Of whom for what, as `CUpti_ActivitySynchronizationType` numbers it.
    pub(crate) synchronization_kind: u32,
    /// When it began.
    pub(crate) start: u64,
    /// When it had ended.
    pub(crate) end: u64,
    /// The call has the same.
    pub(crate) correlation: u32,
    /// CUPTI's number of the context.
    pub(crate) context: u32,
    /// CUPTI's number of the stream that waited or was waited for, if one was.
    pub(crate) stream: Option<u32>,
    /// CUPTI's number of the event that was waited for, if one was.
    pub(crate) event: Option<u32>,
    /// A `CUresult`, 0 if it has worked.
    pub(crate) return_value: u32,
}

/// Time that CUDA or CUPTI took for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// For what, as `CUpti_ActivityOverheadKind` numbers it.
    pub(crate) overhead_kind: u32,
    /// What the overhead was met by, as `CUpti_ActivityObjectKind` numbers it.
    pub(crate) object_kind: u32,
    /// The thread that it happened on, if that is the object.
    pub(crate) thread: Option<u32>,
    /// When it began.
    pub(crate) start: u64,
    /// When it had ended.
    pub(crate) end: u64,
}

/// Memory that was allocated or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Which of both, as `CUpti_ActivityMemoryOperationType` numbers it: 1 allocated, 2 released.
    pub(crate) operation: u32,
    /// What kind of memory, as `CUpti_ActivityMemoryKind` numbers it.
    pub(crate) memory_kind: u32,
    /// The call has the same.
    pub(crate) correlation: u32,
    /// Where it is.
    pub(crate) address: u64,
    /// How much.
    pub(crate) bytes: u64,
    /// When the operation began.
    pub(crate) timestamp: u64,
    /// CUDA's number of the device.
    pub(crate) device: u32,
    /// CUPTI's number of the context, 0 for none.
    pub(crate) context: u32,
    /// CUPTI's number of the stream in whose order it happened, if it was asynchronous.
    pub(crate) stream: Option<u32>,
    /// In a stream's order, not at once.
    pub(crate) is_async: bool,
    /// The pool it came from, if that is one of this process.
    pub(crate) pool: Option<Pool>,
}

/// How full a pool of memory is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool {
    /// What it has.
    pub(crate) size: u64,
    /// What is in use of that.
    pub(crate) utilized: u64,
}

/// A number of ours that belongs to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExternalCorrelation {
    /// Whose number, as `CUpti_ExternalCorrelationKind` numbers it.
    pub(crate) external_kind: u32,
    /// The number.
    pub(crate) external: u64,
    /// The call has the same.
    pub(crate) correlation: u32,
}

/// The beginning or end of a range of NVTX, or a mark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Marker {
    /// Which, as `CUpti_ActivityFlag` numbers it: 1 a mark, 2 a beginning, 4 an end.
    pub(crate) flags: u32,
    /// When.
    pub(crate) timestamp: u64,
    /// Beginning and end of one range have the same.
    pub(crate) id: u32,
    /// What it happened on, as `CUpti_ActivityObjectKind` numbers it.
    pub(crate) object_kind: u32,
    /// The thread that it happened on, if that is the object.
    pub(crate) thread: Option<u32>,
    /// The range's name, which ends in a zero; null for an end. CUPTI's, as [`Kernel::name`].
    pub(crate) name: *const c_char,
    /// The name of the domain, null for the one without a name. CUPTI's, as [`Kernel::name`].
    pub(crate) domain: *const c_char,
}

/// Numbers of kinds of records, as `CUpti_ActivityKind` has them.
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

/// Reads the record at the start of `bytes`, which may go on behind it and need not be aligned. Fails
/// if they end before what is read of such a record does; of a kind that is not known only its number
/// is read.
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
    // SAFETY: so many bytes are there. They are read as unaligned ones, and are a `P` whatever they
    // are, as it promises.
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
