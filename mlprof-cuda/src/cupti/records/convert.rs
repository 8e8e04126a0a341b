//! Conversion of record layouts to the records used by this crate.

use super::kind;
use super::layout::{
    Api, ExternalCorrelation, Kernel, Marker, Memcpy, MemcpyPeer, Memory, Memset, Overhead,
    Synchronization,
};

/// `CUPTI_SYNCHRONIZATION_INVALID_VALUE`, which marks a field that does not apply to a kind of
/// wait.
const NOT_APPLICABLE: u32 = u32::MAX;
/// `CUPTI_ACTIVITY_OBJECT_THREAD`.
const OBJECT_THREAD: u32 = 2;
/// `CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL`.
const POOL_LOCAL: u32 = 1;

/// Returns the thread id of an object, if the object is a thread.
fn thread(object_kind: u32, number: u32) -> Option<u32> {
    (object_kind == OBJECT_THREAD).then_some(number)
}

impl From<Kernel> for super::Kernel {
    fn from(raw: Kernel) -> Self {
        Self {
            start: raw.start,
            end: raw.end,
            device: raw.device,
            context: raw.context,
            stream: raw.stream,
            correlation: raw.correlation,
            grid: [raw.grid_x, raw.grid_y, raw.grid_z],
            block: [raw.block_x, raw.block_y, raw.block_z],
            registers_per_thread: raw.registers_per_thread.into(),
            static_shared_memory: raw.static_shared_memory,
            dynamic_shared_memory: raw.dynamic_shared_memory,
            local_memory_per_thread: raw.local_memory_per_thread,
            graph: raw.graph,
            graph_node: raw.graph_node,
            name: raw.name,
        }
    }
}

impl From<Memcpy> for super::Memcpy {
    fn from(raw: Memcpy) -> Self {
        Self {
            copy_kind: raw.copy_kind,
            source_kind: raw.source_kind,
            destination_kind: raw.destination_kind,
            bytes: raw.bytes,
            start: raw.start,
            end: raw.end,
            device: raw.device,
            context: raw.context,
            stream: raw.stream,
            correlation: raw.correlation,
            peers: None,
            graph: raw.graph,
            graph_node: raw.graph_node,
        }
    }
}

impl From<MemcpyPeer> for super::Memcpy {
    fn from(raw: MemcpyPeer) -> Self {
        let peers = super::Peers {
            source_device: raw.source_device,
            destination_device: raw.destination_device,
        };
        Self {
            copy_kind: raw.copy_kind,
            source_kind: raw.source_kind,
            destination_kind: raw.destination_kind,
            bytes: raw.bytes,
            start: raw.start,
            end: raw.end,
            device: raw.device,
            context: raw.context,
            stream: raw.stream,
            correlation: raw.correlation,
            peers: Some(peers),
            graph: raw.graph,
            graph_node: raw.graph_node,
        }
    }
}

impl From<Memset> for super::Memset {
    fn from(raw: Memset) -> Self {
        Self {
            value: raw.value,
            bytes: raw.bytes,
            memory_kind: raw.memory_kind,
            start: raw.start,
            end: raw.end,
            device: raw.device,
            context: raw.context,
            stream: raw.stream,
            correlation: raw.correlation,
            graph: raw.graph,
            graph_node: raw.graph_node,
        }
    }
}

impl From<Api> for super::Api {
    fn from(raw: Api) -> Self {
        Self {
            is_driver: raw.kind == kind::DRIVER,
            callback: raw.callback,
            start: raw.start,
            end: raw.end,
            process: raw.process,
            thread: raw.thread,
            correlation: raw.correlation,
            return_value: raw.return_value,
        }
    }
}

impl From<Synchronization> for super::Synchronization {
    fn from(raw: Synchronization) -> Self {
        let applicable = |number| (number != NOT_APPLICABLE).then_some(number);
        Self {
            synchronization_kind: raw.synchronization_kind,
            start: raw.start,
            end: raw.end,
            correlation: raw.correlation,
            context: raw.context,
            stream: applicable(raw.stream),
            event: applicable(raw.event),
            return_value: raw.return_value,
        }
    }
}

impl From<Overhead> for super::Overhead {
    fn from(raw: Overhead) -> Self {
        Self {
            overhead_kind: raw.overhead_kind,
            object_kind: raw.object_kind,
            thread: thread(raw.object_kind, raw.object_thread),
            start: raw.start,
            end: raw.end,
        }
    }
}

impl From<Memory> for super::Memory {
    fn from(raw: Memory) -> Self {
        let pool = super::Pool { size: raw.pool_size, utilized: raw.pool_utilized };
        let is_async = raw.is_async != 0;
        Self {
            operation: raw.operation,
            memory_kind: raw.memory_kind,
            correlation: raw.correlation,
            address: raw.address,
            bytes: raw.bytes,
            timestamp: raw.timestamp,
            device: raw.device,
            context: raw.context,
            stream: is_async.then_some(raw.stream),
            is_async,
            pool: (raw.pool_kind == POOL_LOCAL).then_some(pool),
        }
    }
}

impl From<ExternalCorrelation> for super::ExternalCorrelation {
    fn from(raw: ExternalCorrelation) -> Self {
        Self {
            external_kind: raw.external_kind,
            external: raw.external,
            correlation: raw.correlation,
        }
    }
}

impl From<Marker> for super::Marker {
    fn from(raw: Marker) -> Self {
        Self {
            flags: raw.flags,
            timestamp: raw.timestamp,
            id: raw.id,
            object_kind: raw.object_kind,
            thread: thread(raw.object_kind, raw.object_thread),
            name: raw.name,
            domain: raw.domain,
        }
    }
}
