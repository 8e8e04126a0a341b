//! C layouts of record prefixes as declared in CUPTI's header `cupti_activity.h`. Each layout ends
//! with the last field that is read, and it is equal in all versions from 12.9 on. CUPTI supports
//! only 64-bit platforms.

use std::ffi::c_char;

/// Prefix of a record.
///
/// # Safety
///
/// The type must be `#[repr(C)]` and consist only of integers and raw pointers, so that any bytes
/// are a valid value.
pub(super) unsafe trait Prefix: Sized {}

/// Common prefix of all records.
#[repr(C)]
pub(super) struct Head {
    pub(super) kind: u32,
}

/// Prefix of `CUpti_ActivityKernel9` (12.9), `10` (13.0), `11` (13.1), `12` (13.3) and `13` (13.4).
#[repr(C)]
pub(super) struct Kernel {
    pub(super) kind: u32,
    pub(super) cache: u8,
    pub(super) shared_memory_configuration: u8,
    pub(super) registers_per_thread: u16,
    pub(super) global_cache: [u32; 2],
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) completed: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) grid_x: u32,
    pub(super) grid_y: u32,
    pub(super) grid_z: u32,
    pub(super) block_x: u32,
    pub(super) block_y: u32,
    pub(super) block_z: u32,
    pub(super) static_shared_memory: u32,
    pub(super) dynamic_shared_memory: u32,
    pub(super) local_memory_per_thread: u32,
    pub(super) local_memory_total: u32,
    pub(super) correlation: u32,
    pub(super) grid_id: i64,
    pub(super) name: *const c_char,
    pub(super) reserved: u64,
    pub(super) queued: u64,
    pub(super) submitted: u64,
    pub(super) launch: [u8; 4],
    pub(super) shared_memory_executed: u32,
    pub(super) graph_node: u64,
    pub(super) shared_memory_limit: u32,
    pub(super) graph: u32,
}

/// Prefix of `CUpti_ActivityMemcpy6` and, from 13.4 on, `7`.
#[repr(C)]
pub(super) struct Memcpy {
    pub(super) kind: u32,
    pub(super) copy_kind: u8,
    pub(super) source_kind: u8,
    pub(super) destination_kind: u8,
    pub(super) flags: u8,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) runtime_correlation: u32,
    pub(super) padding: u32,
    pub(super) reserved: u64,
    pub(super) graph_node: u64,
    pub(super) graph: u32,
    pub(super) channel: u32,
}

/// Prefix of `CUpti_ActivityMemcpyPtoP4`.
#[repr(C)]
pub(super) struct MemcpyPeer {
    pub(super) kind: u32,
    pub(super) copy_kind: u8,
    pub(super) source_kind: u8,
    pub(super) destination_kind: u8,
    pub(super) flags: u8,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) source_device: u32,
    pub(super) source_context: u32,
    pub(super) destination_device: u32,
    pub(super) destination_context: u32,
    pub(super) correlation: u32,
    pub(super) reserved: u64,
    pub(super) graph_node: u64,
    pub(super) graph: u32,
    pub(super) channel: u32,
}

/// Prefix of `CUpti_ActivityMemset4` and, from 13.4 on, `5`.
#[repr(C)]
pub(super) struct Memset {
    pub(super) kind: u32,
    pub(super) value: u32,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) flags: u16,
    pub(super) memory_kind: u16,
    pub(super) padding: u32,
    pub(super) reserved: u64,
    pub(super) graph_node: u64,
    pub(super) graph: u32,
    pub(super) channel: u32,
}

/// Prefix of `CUpti_ActivityAPI`.
#[repr(C)]
pub(super) struct Api {
    pub(super) kind: u32,
    pub(super) callback: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) correlation: u32,
    pub(super) return_value: u32,
}

/// Prefix of `CUpti_ActivitySynchronization2`.
#[repr(C)]
pub(super) struct Synchronization {
    pub(super) kind: u32,
    pub(super) synchronization_kind: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) correlation: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) event: u32,
    pub(super) event_synchronization: u64,
    pub(super) return_value: u32,
    pub(super) padding: u32,
}

/// Prefix of `CUpti_ActivityOverhead3`.
#[repr(C)]
pub(super) struct Overhead {
    pub(super) kind: u32,
    pub(super) overhead_kind: u32,
    pub(super) object_kind: u32,
    pub(super) object_process: u32,
    pub(super) object_thread: u32,
    pub(super) object_stream: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Prefix of `CUpti_ActivityMemory4`.
#[repr(C)]
pub(super) struct Memory {
    pub(super) kind: u32,
    pub(super) operation: u32,
    pub(super) memory_kind: u32,
    pub(super) correlation: u32,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) timestamp: u64,
    pub(super) program_counter: u64,
    pub(super) process: u32,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) name: u64,
    pub(super) is_async: u32,
    pub(super) padding: u32,
    pub(super) pool_kind: u32,
    pub(super) pool_padding: u32,
    pub(super) pool_address: u64,
    pub(super) pool_release_threshold: u64,
    pub(super) pool_size: u64,
    pub(super) pool_utilized: u64,
}

/// Prefix of `CUpti_ActivityExternalCorrelation`.
#[repr(C)]
pub(super) struct ExternalCorrelation {
    pub(super) kind: u32,
    pub(super) external_kind: u32,
    pub(super) external: u64,
    pub(super) correlation: u32,
    pub(super) reserved: u32,
}

/// Prefix of `CUpti_ActivityMarker2`.
#[repr(C)]
pub(super) struct Marker {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) timestamp: u64,
    pub(super) id: u32,
    pub(super) object_kind: u32,
    pub(super) object_process: u32,
    pub(super) object_thread: u32,
    pub(super) object_stream: u32,
    pub(super) padding: u32,
    pub(super) name: *const c_char,
    pub(super) domain: *const c_char,
}

// SAFETY: the type is `#[repr(C)]` and consists of one integer.
unsafe impl Prefix for Head {}
// SAFETY: the type is `#[repr(C)]` and consists of integers and a raw pointer.
unsafe impl Prefix for Kernel {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for Memcpy {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for MemcpyPeer {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for Memset {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for Api {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for Synchronization {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for Overhead {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for Memory {}
// SAFETY: the type is `#[repr(C)]` and consists of integers.
unsafe impl Prefix for ExternalCorrelation {}
// SAFETY: the type is `#[repr(C)]` and consists of integers and raw pointers.
unsafe impl Prefix for Marker {}
