/* Writes one record of each kind that mlprof reads, in the layout of the included CUPTI headers.
 *
 *   cc -I<include of CUPTI> -I<include of CUDA> fixture.c -o fixture && ./fixture records-13.5.bin
 *
 * All numbers are little-endian. The file begins with CUPTI_API_VERSION (8 bytes). Each record has
 * its length and its number of set fields (8 bytes each), the offset and size of each set field
 * (4 bytes each), and its bytes. Other fields are filled with 0xEE.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cupti.h>

#if CUPTI_API_VERSION >= 130401
typedef CUpti_ActivityKernel13 Kernel;
typedef CUpti_ActivityMemcpy7 Memcpy;
typedef CUpti_ActivityMemset5 Memset;
#else
typedef CUpti_ActivityMemcpy6 Memcpy;
typedef CUpti_ActivityMemset4 Memset;
#if CUPTI_API_VERSION >= 130301
typedef CUpti_ActivityKernel12 Kernel;
#elif CUPTI_API_VERSION >= 130101
typedef CUpti_ActivityKernel11 Kernel;
#elif CUPTI_API_VERSION >= 130001
typedef CUpti_ActivityKernel10 Kernel;
#else
typedef CUpti_ActivityKernel9 Kernel;
#endif
#endif

static FILE *file;
static uint32_t fields[128];
static uint64_t field_count;

static void put(const void *bytes, size_t length) {
    if (fwrite(bytes, 1, length, file) != length) {
        perror("cannot write");
        exit(1);
    }
}

static void note(size_t offset, size_t size) {
    fields[2 * field_count] = (uint32_t)offset;
    fields[2 * field_count + 1] = (uint32_t)size;
    field_count += 1;
}

static void end(const void *record, uint64_t length) {
    put(&length, sizeof length);
    put(&field_count, sizeof field_count);
    put(fields, 8 * field_count);
    put(record, length);
    field_count = 0;
}

#define BEGIN(type, number)                                                                        \
    {                                                                                              \
        type record;                                                                               \
        memset(&record, 0xEE, sizeof record);                                                      \
        SET(kind, number)
#define SET(field, value)                                                                          \
    record.field = (value);                                                                        \
    note(offsetof(__typeof__(record), field), sizeof record.field);
#define END                                                                                        \
    end(&record, sizeof record);                                                                   \
    }

static void kernel(CUpti_ActivityKind kind, uint32_t correlation) {
    BEGIN(Kernel, kind)
    SET(registersPerThread, 0x0201)
    SET(start, 0x1111111111111101)
    SET(end, 0x1111111111111102)
    SET(deviceId, 0x11000003)
    SET(contextId, 0x11000004)
    SET(streamId, 0x11000005)
    SET(gridX, 0x11000006)
    SET(gridY, 0x11000007)
    SET(gridZ, 0x11000008)
    SET(blockX, 0x11000009)
    SET(blockY, 0x1100000a)
    SET(blockZ, 0x1100000b)
    SET(staticSharedMemory, 0x1100000c)
    SET(dynamicSharedMemory, 0x1100000d)
    SET(localMemoryPerThread, 0x1100000e)
    SET(correlationId, correlation)
    SET(name, (const char *)0x111111111111110f)
    SET(graphNodeId, 0x1111111111111110)
    SET(graphId, 0x11000011)
    END
}

static void call(CUpti_ActivityKind kind, uint32_t function) {
    BEGIN(CUpti_ActivityAPI, kind)
    SET(cbid, function)
    SET(start, 0x5555555555555501)
    SET(end, 0x5555555555555502)
    SET(processId, 0x55000003)
    SET(threadId, 0x55000004)
    SET(correlationId, 0x55000005)
    SET(returnValue, 0x55000006)
    END
}

static void wait(CUpti_ActivitySynchronizationType type, uint32_t stream, uint32_t event) {
    BEGIN(CUpti_ActivitySynchronization2, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)
    SET(type, type)
    SET(start, 0x6666666666666601)
    SET(end, 0x6666666666666602)
    SET(correlationId, 0x66000003)
    SET(contextId, 0x66000004)
    SET(streamId, stream)
    SET(cudaEventId, event)
    SET(returnValue, 0x66000007)
    END
}

static void overhead(CUpti_ActivityOverheadKind kind, CUpti_ActivityObjectKind object) {
    BEGIN(CUpti_ActivityOverhead3, CUPTI_ACTIVITY_KIND_OVERHEAD)
    SET(overheadKind, kind)
    SET(objectKind, object)
    SET(objectId.pt.threadId, 0x77000001)
    SET(start, 0x7777777777777702)
    SET(end, 0x7777777777777703)
    END
}

static void memory(CUpti_ActivityMemoryOperationType operation, uint32_t is_async,
                   CUpti_ActivityMemoryPoolType pool) {
    BEGIN(CUpti_ActivityMemory4, CUPTI_ACTIVITY_KIND_MEMORY2)
    SET(memoryOperationType, operation)
    SET(memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE)
    SET(correlationId, 0x88000001)
    SET(address, 0x8888888888888802)
    SET(bytes, 0x8888888888888803)
    SET(timestamp, 0x8888888888888804)
    SET(deviceId, 0x88000005)
    SET(contextId, 0x88000006)
    SET(streamId, 0x88000007)
    SET(isAsync, is_async)
    SET(memoryPoolConfig.memoryPoolType, pool)
    SET(memoryPoolConfig.pool.size, 0x8888888888888808)
    SET(memoryPoolConfig.utilizedSize, 0x8888888888888809)
    END
}

static void marker(CUpti_ActivityFlag flags, CUpti_ActivityObjectKind object) {
    BEGIN(CUpti_ActivityMarker2, CUPTI_ACTIVITY_KIND_MARKER)
    SET(flags, flags)
    SET(timestamp, 0x9999999999999901)
    SET(id, 0x99000002)
    SET(objectKind, object)
    SET(objectId.pt.threadId, 0x99000003)
    SET(name, (const char *)0x1999999999999904)
    SET(domain, (const char *)0x1999999999999905)
    END
}

int main(int count, char **arguments) {
    uint64_t version = CUPTI_API_VERSION;
    if (count != 2 || (file = fopen(arguments[1], "wb")) == NULL) {
        fprintf(stderr, "fixture <file to write>\n");
        return 1;
    }
    put(&version, sizeof version);

    kernel(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0x11000012);
    kernel(CUPTI_ACTIVITY_KIND_KERNEL, 0x11000013);

    BEGIN(Memcpy, CUPTI_ACTIVITY_KIND_MEMCPY)
    SET(copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD)
    SET(srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED)
    SET(dstKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE)
    SET(bytes, 0x2222222222222201)
    SET(start, 0x2222222222222202)
    SET(end, 0x2222222222222203)
    SET(deviceId, 0x22000004)
    SET(contextId, 0x22000005)
    SET(streamId, 0x22000006)
    SET(correlationId, 0x22000007)
    SET(graphNodeId, 0x2222222222222208)
    SET(graphId, 0x22000009)
    END

    BEGIN(CUpti_ActivityMemcpyPtoP4, CUPTI_ACTIVITY_KIND_MEMCPY2)
    SET(copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)
    SET(srcKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE)
    SET(dstKind, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED)
    SET(bytes, 0x3333333333333301)
    SET(start, 0x3333333333333302)
    SET(end, 0x3333333333333303)
    SET(deviceId, 0x33000004)
    SET(contextId, 0x33000005)
    SET(streamId, 0x33000006)
    SET(srcDeviceId, 0x33000007)
    SET(dstDeviceId, 0x33000008)
    SET(correlationId, 0x33000009)
    SET(graphNodeId, 0x333333333333330a)
    SET(graphId, 0x3300000b)
    END

    BEGIN(Memset, CUPTI_ACTIVITY_KIND_MEMSET)
    SET(value, 0x44000001)
    SET(bytes, 0x4444444444444402)
    SET(start, 0x4444444444444403)
    SET(end, 0x4444444444444404)
    SET(deviceId, 0x44000005)
    SET(contextId, 0x44000006)
    SET(streamId, 0x44000007)
    SET(correlationId, 0x44000008)
    SET(memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_ARRAY)
    SET(graphNodeId, 0x4444444444444409)
    SET(graphId, 0x4400000a)
    END

    call(CUPTI_ACTIVITY_KIND_RUNTIME, 211);
    call(CUPTI_ACTIVITY_KIND_DRIVER, 307);
    wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, 0x66000005, 0x66000006);
    wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE,
         CUPTI_SYNCHRONIZATION_INVALID_VALUE, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
    overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, CUPTI_ACTIVITY_OBJECT_THREAD);
    overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, CUPTI_ACTIVITY_OBJECT_DEVICE);
    memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, 1,
           CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL);
    memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, 0,
           CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID);

    BEGIN(CUpti_ActivityExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
    SET(externalKind, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1)
    SET(externalId, 0xaaaaaaaaaaaaaa01)
    SET(correlationId, 0xaa000002)
    END

    marker(CUPTI_ACTIVITY_FLAG_MARKER_START, CUPTI_ACTIVITY_OBJECT_THREAD);
    marker(CUPTI_ACTIVITY_FLAG_MARKER_END, CUPTI_ACTIVITY_OBJECT_PROCESS);

    BEGIN(CUpti_Activity, CUPTI_ACTIVITY_KIND_MARKER_DATA)
    END

    return fclose(file) != 0;
}
