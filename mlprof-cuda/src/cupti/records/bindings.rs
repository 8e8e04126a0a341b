//! Compile-time comparison of our record layouts with another crate's bindings, for all versions of
//! each record in those bindings.

use std::mem::offset_of;

use cudarc::cupti::sys::{
    CUpti_ActivityAPI, CUpti_ActivityExternalCorrelation, CUpti_ActivityKernel9,
    CUpti_ActivityKernel10, CUpti_ActivityKernel11, CUpti_ActivityKernel12, CUpti_ActivityKernel13,
    CUpti_ActivityMarker2, CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy7, CUpti_ActivityMemcpyPtoP4,
    CUpti_ActivityMemory4, CUpti_ActivityMemset4, CUpti_ActivityMemset5, CUpti_ActivityOverhead3,
    CUpti_ActivitySynchronization2,
};

use super::layout;

/// Fails to compile if a field has another offset in any of these types, or if a record is shorter
/// than its layout here.
macro_rules! same_place {
    ($layout:ident = $($theirs:ident)*, $fields:tt) => {
        $(same_place!(@one $layout $theirs $fields);)*
    };
    (@one $layout:ident $theirs:ident { $($ours:ident: $($their:ident).+,)* }) => {
        const _: () = {
            assert!(size_of::<layout::$layout>() <= size_of::<$theirs>());
            $(assert!(offset_of!(layout::$layout, $ours) == offset_of!($theirs, $($their).+));)*
        };
    };
}

same_place!(Kernel = CUpti_ActivityKernel9 CUpti_ActivityKernel10 CUpti_ActivityKernel11
    CUpti_ActivityKernel12 CUpti_ActivityKernel13, {
    kind: kind,
    shared_memory_configuration: sharedMemoryConfig,
    registers_per_thread: registersPerThread,
    global_cache: partitionedGlobalCacheRequested,
    start: start,
    end: end,
    completed: completed,
    device: deviceId,
    context: contextId,
    stream: streamId,
    grid_x: gridX,
    grid_y: gridY,
    grid_z: gridZ,
    block_x: blockX,
    block_y: blockY,
    block_z: blockZ,
    static_shared_memory: staticSharedMemory,
    dynamic_shared_memory: dynamicSharedMemory,
    local_memory_per_thread: localMemoryPerThread,
    local_memory_total: localMemoryTotal,
    correlation: correlationId,
    grid_id: gridId,
    name: name,
    reserved: reserved0,
    queued: queued,
    submitted: submitted,
    launch: launchType,
    shared_memory_executed: sharedMemoryExecuted,
    graph_node: graphNodeId,
    shared_memory_limit: shmemLimitConfig,
    graph: graphId,
});

same_place!(Memcpy = CUpti_ActivityMemcpy6 CUpti_ActivityMemcpy7, {
    kind: kind,
    copy_kind: copyKind,
    source_kind: srcKind,
    destination_kind: dstKind,
    flags: flags,
    bytes: bytes,
    start: start,
    end: end,
    device: deviceId,
    context: contextId,
    stream: streamId,
    correlation: correlationId,
    runtime_correlation: runtimeCorrelationId,
    padding: pad,
    reserved: reserved0,
    graph_node: graphNodeId,
    graph: graphId,
    channel: channelID,
});

same_place!(MemcpyPeer = CUpti_ActivityMemcpyPtoP4, {
    kind: kind,
    copy_kind: copyKind,
    source_kind: srcKind,
    destination_kind: dstKind,
    flags: flags,
    bytes: bytes,
    start: start,
    end: end,
    device: deviceId,
    context: contextId,
    stream: streamId,
    source_device: srcDeviceId,
    source_context: srcContextId,
    destination_device: dstDeviceId,
    destination_context: dstContextId,
    correlation: correlationId,
    reserved: reserved0,
    graph_node: graphNodeId,
    graph: graphId,
    channel: channelID,
});

same_place!(Memset = CUpti_ActivityMemset4 CUpti_ActivityMemset5, {
    kind: kind,
    value: value,
    bytes: bytes,
    start: start,
    end: end,
    device: deviceId,
    context: contextId,
    stream: streamId,
    correlation: correlationId,
    flags: flags,
    memory_kind: memoryKind,
    padding: pad,
    reserved: reserved0,
    graph_node: graphNodeId,
    graph: graphId,
    channel: channelID,
});

same_place!(Api = CUpti_ActivityAPI, {
    kind: kind,
    callback: cbid,
    start: start,
    end: end,
    process: processId,
    thread: threadId,
    correlation: correlationId,
    return_value: returnValue,
});

same_place!(Synchronization = CUpti_ActivitySynchronization2, {
    kind: kind,
    synchronization_kind: type_,
    start: start,
    end: end,
    correlation: correlationId,
    context: contextId,
    stream: streamId,
    event: cudaEventId,
    event_synchronization: cudaEventSyncId,
    return_value: returnValue,
    padding: pad,
});

same_place!(Overhead = CUpti_ActivityOverhead3, {
    kind: kind,
    overhead_kind: overheadKind,
    object_kind: objectKind,
    object_process: objectId.pt.processId,
    object_thread: objectId.pt.threadId,
    object_stream: objectId.dcs.streamId,
    start: start,
    end: end,
});

same_place!(Memory = CUpti_ActivityMemory4, {
    kind: kind,
    operation: memoryOperationType,
    memory_kind: memoryKind,
    correlation: correlationId,
    address: address,
    bytes: bytes,
    timestamp: timestamp,
    program_counter: PC,
    process: processId,
    device: deviceId,
    context: contextId,
    stream: streamId,
    name: name,
    is_async: isAsync,
    padding: pad1,
    pool_kind: memoryPoolConfig.memoryPoolType,
    pool_padding: memoryPoolConfig.pad2,
    pool_address: memoryPoolConfig.address,
    pool_release_threshold: memoryPoolConfig.releaseThreshold,
    pool_size: memoryPoolConfig.pool.size,
    pool_utilized: memoryPoolConfig.utilizedSize,
});

same_place!(ExternalCorrelation = CUpti_ActivityExternalCorrelation, {
    kind: kind,
    external_kind: externalKind,
    external: externalId,
    correlation: correlationId,
    reserved: reserved,
});

same_place!(Marker = CUpti_ActivityMarker2, {
    kind: kind,
    flags: flags,
    timestamp: timestamp,
    id: id,
    object_kind: objectKind,
    object_process: objectId.pt.processId,
    object_thread: objectId.pt.threadId,
    object_stream: objectId.dcs.streamId,
    padding: pad,
    name: name,
    domain: domain,
});
