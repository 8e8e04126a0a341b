/* Fake libcupti for tests, with the CUDA calls that it records.
 *
 * Build: cc -shared -fPIC -o libcupti.so.12 cupti.c
 *
 * Each record has a slot of 256 bytes. The fields that mlprof reads are at the offsets of NVIDIA's
 * cupti_activity.h from 12.9 to 13.5; fixture.c checks this against the header. The device runs its
 * work in sequence. No time passes for work; the fake computes start and end itself.
 *
 * Values of the environment variable FAKE_CUPTI: claimed, not-permitted, too-new, no-clock (ignores
 * the profiler's clock), no-calls (records no calls), cut (truncates the last record of each
 * buffer), lost (fails at the second record of a buffer). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOT = 256, KINDS = 64, MOST_THREADS = 4096 };
enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, MARKER = 12, OVERHEAD = 17, SYNCHRONIZATION = 38,
       EXTERNAL = 39, MEMORY2 = 49 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*clock_of_theirs)(void);
static int enabled[KINDS], is_claimed, enables, finalized, silent;
static uint8_t *buffer;
static size_t room, filled, dropped;
static uint32_t correlation = 100;
static uint64_t busy_until[2];
static __thread uint64_t external[16];
static __thread int externals;

static int is(const char *mode) {
    const char *set = getenv("FAKE_CUPTI");
    return set && strcmp(set, mode) == 0;
}

static uint64_t now(void) {
    if (clock_of_theirs) return clock_of_theirs();
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Functions of CUPTI. */
uint32_t cuptiGetContextId(void *context, uint32_t *number) { (void)context; *number = 1; return 0; }
uint32_t cuptiGetStreamIdEx(void *context, void *stream, uint8_t own, uint32_t *number) {
    (void)context, (void)own;
    *number = stream ? 20 : 7;
    return 0;
}
uint32_t cuptiGetTimestamp(uint64_t *time) { *time = now(); return 0; }
uint32_t cuptiGetResultString(uint32_t code, const char **name) {
    switch (code) {
    case 15: *name = "CUPTI_ERROR_NOT_INITIALIZED"; return 0;
    case 35: *name = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"; return 0;
    case 39: *name = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"; return 0;
    default: return 1;
    }
}
/* At process exit, CUPTI returns its buffer. Reading records later aborts. */
static void give_back(void);
static int is_gone;
static void at_exit(void) {
    pthread_mutex_lock(&lock);
    is_gone = 1;
    give_back();
    pthread_mutex_unlock(&lock);
    usleep(100000);
}
uint32_t cuptiSubscribe(void **subscriber, void *callback, void *data) {
    (void)callback, (void)data;
    static int once;
    if (!once++) atexit(at_exit);
    if (is("claimed") || is_claimed) return 39;
    is_claimed = 1;
    *subscriber = &is_claimed;
    return 0;
}
struct parameters { size_t size; const char *name; char *other; size_t other_size; uint8_t allows; };
uint32_t cuptiSubscribe_v2(void **subscriber, void *callback, void *data, struct parameters *parameters) {
    (void)subscriber, (void)callback, (void)data;
    if (parameters->size != 40) return 1;
    strncpy(parameters->other, "CUPTI for Kineto", parameters->other_size);
    return 39;
}
uint32_t cuptiUnsubscribe(void *subscriber) {
    if (subscriber != &is_claimed || !is_claimed) return 1;
    is_claimed = 0;
    return 0;
}
uint32_t cuptiActivityRegisterCallbacks(void *requested, void *completed) {
    *(void **)&request = requested;
    *(void **)&complete = completed;
    return 0;
}
uint32_t cuptiActivityRegisterTimestampCallback(void *callback) {
    if (is("no-clock")) return 27;
    *(void **)&clock_of_theirs = callback;
    return 0;
}
uint32_t cuptiSetThreadIdType(uint32_t type) { return type == 1 ? 0 : 27; }
uint32_t cuptiActivityEnable(uint32_t kind) {
    if (is("not-permitted")) return 35;
    if (is("too-new")) return 15;
    if (kind >= KINDS) return 21;
    enabled[kind] = 1;
    enables++;
    return 0;
}
uint32_t cuptiActivityDisable(uint32_t kind) { enabled[kind % KINDS] = 0; return 0; }
uint32_t cuptiFinalize(void) { finalized++; request = 0; complete = 0; clock_of_theirs = 0; return 0; }
uint32_t cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t number) {
    if (kind != 5 || externals == 16) return 1;
    external[externals++] = number;
    return 0;
}
uint32_t cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last) {
    if (kind != 5 || externals == 0) return 18;
    *last = external[--externals];
    return 0;
}
uint32_t cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
    static const char *runtime[] = {"INVALID", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020",
                                    "cudaMemsetAsync_v3020", "cudaMalloc_v3020", "cudaFree_v3020",
                                    "cudaGetDevice_v3020", "cudaStreamSynchronize_v3020"};
    if (domain == 2 && number < 8) { *name = runtime[number]; return 0; }
    if (domain == 1 && number == 1) { *name = "cuLaunchKernel"; return 0; }
    return 1;
}
static void give_back(void) {
    if (!buffer) return;
    uint8_t *full = buffer;
    size_t bytes = filled, size = room;
    buffer = 0;
    if (is("cut") && bytes > 0) bytes -= SLOT - 12;
    if (complete) complete(0, 0, full, size, bytes);
}
uint32_t cuptiActivityFlushAll(uint32_t flag) {
    if (flag > 1) return 1;
    pthread_mutex_lock(&lock);
    give_back();
    pthread_mutex_unlock(&lock);
    return 0;
}
uint32_t cuptiActivityGetNextRecord(uint8_t *start, size_t bytes, uint8_t **record) {
    if (is_gone) abort();
    if (!start) return 1;
    if (is("lost") && *record == start) return 21;
    uint8_t *next = *record ? *record + SLOT : start;
    if (next >= start + bytes) return 12;
    *record = next;
    return 0;
}
uint32_t cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    (void)context, (void)stream;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Returns the slot of a new record, or a dummy if this kind is disabled. Requires the lock. */
static uint8_t *record(uint32_t kind) {
    static uint8_t nowhere[SLOT];
    if (silent || !enabled[kind] || !request) return nowhere;
    if (!buffer || filled + SLOT > room) {
        size_t records = 0;
        give_back();
        filled = room = 0;
        request(&buffer, &room, &records);
        if (!buffer || room < SLOT) { dropped++; return nowhere; }
    }
    uint8_t *place = buffer + filled;
    filled += SLOT;
    memset(place, 0, SLOT);
    memcpy(place, &kind, 4);
    return place;
}
static void put32(uint8_t *place, size_t at, uint32_t value) { memcpy(place + at, &value, 4); }
static void put64(uint8_t *place, size_t at, uint64_t value) { memcpy(place + at, &value, 8); }

static uint32_t enter(void) {
    uint32_t number = ++correlation;
    if (externals) {
        uint8_t *place = record(EXTERNAL);
        put32(place, 4, 5);
        put64(place, 8, external[externals - 1]);
        put32(place, 16, number);
    }
    return number;
}
static void leave(uint32_t kind, uint32_t function, uint64_t start, uint32_t number) {
    if (is("no-calls")) return;
    uint8_t *place = record(kind);
    put32(place, 4, function);
    put64(place, 8, start);
    put64(place, 16, now());
    put32(place, 24, (uint32_t)getpid());
    put32(place, 28, (uint32_t)syscall(SYS_gettid));
    put32(place, 32, number);
}
/* Work starts when the device is free, and at least a microsecond after the call. */
static uint64_t run(uint32_t stream, uint64_t took) {
    uint64_t *busy = &busy_until[stream % 2], soonest = now() + 1000;
    /* The time is of CUPTI's own clock, from before the profiler set its clock. */
    if (*busy > soonest + 1000000000000u) *busy = 0;
    uint64_t start = *busy > soonest ? *busy : soonest;
    *busy = start + took;
    return start;
}

/* CUDA calls for the scenes. Each returns its correlation number. */
uint32_t fake_launch(const char *name, uint32_t stream, uint64_t took) {
    pthread_mutex_lock(&lock);
    uint64_t start = now();
    uint32_t number = enter();
    uint64_t begun = run(stream, took);
    uint8_t *place = record(KERNEL);
    place[6] = 32; /* registers per thread */
    put64(place, 16, took ? begun : 0); /* work without duration has no times */
    put64(place, 24, took ? begun + took : 0);
    put32(place, 44, 1); /* context */
    put32(place, 48, stream);
    put32(place, 52, 64), put32(place, 56, 2), put32(place, 60, 1);
    put32(place, 64, 256), put32(place, 68, 1), put32(place, 72, 1);
    put32(place, 76, 1024), put32(place, 80, 512); /* shared memory */
    put32(place, 92, number);
    put64(place, 104, (uint64_t)(uintptr_t)name);
    /* The runtime's call contains a driver call. */
    uint64_t inside = now();
    leave(DRIVER, 1, inside, number);
    leave(RUNTIME, 1, start, number);
    pthread_mutex_unlock(&lock);
    return number;
}
uint32_t fake_copy(uint32_t stream, uint64_t bytes, uint64_t took) {
    pthread_mutex_lock(&lock);
    uint64_t start = now();
    uint32_t number = enter();
    uint64_t begun = run(stream, took);
    uint8_t *place = record(MEMCPY);
    place[4] = 1, place[5] = 1, place[6] = 3; /* from pageable host memory to device memory */
    put64(place, 8, bytes);
    put64(place, 16, begun);
    put64(place, 24, begun + took);
    put32(place, 36, 1);
    put32(place, 40, stream);
    put32(place, 44, number);
    leave(RUNTIME, 2, start, number);
    pthread_mutex_unlock(&lock);
    return number;
}
uint32_t fake_fill(uint32_t stream, uint64_t bytes, uint64_t took) {
    pthread_mutex_lock(&lock);
    uint64_t start = now();
    uint32_t number = enter();
    uint64_t begun = run(stream, took);
    uint8_t *place = record(MEMSET);
    put64(place, 8, bytes);
    put64(place, 16, begun);
    put64(place, 24, begun + took);
    put32(place, 36, 1);
    put32(place, 40, stream);
    put32(place, 44, number);
    uint16_t device = 3;
    memcpy(place + 50, &device, 2);
    leave(RUNTIME, 3, start, number);
    pthread_mutex_unlock(&lock);
    return number;
}
void fake_memory(int allocates, uint64_t address, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    uint64_t start = now();
    uint32_t number = enter();
    uint8_t *place = record(MEMORY2);
    put32(place, 4, allocates ? 1 : 2);
    put32(place, 8, 3);
    put32(place, 12, number);
    put64(place, 16, address);
    put64(place, 24, bytes);
    put64(place, 32, now());
    put32(place, 52, 0);
    put32(place, 56, 1);
    leave(RUNTIME, allocates ? 4 : 5, start, number);
    pthread_mutex_unlock(&lock);
}
void fake_wait(uint32_t stream) {
    pthread_mutex_lock(&lock);
    uint64_t start = now();
    uint32_t number = enter();
    uint8_t *place = record(SYNCHRONIZATION);
    put32(place, 4, 3);
    put64(place, 8, start);
    put64(place, 16, now());
    put32(place, 24, number);
    put32(place, 28, 1);
    put32(place, 32, stream);
    put32(place, 36, UINT32_MAX);
    leave(RUNTIME, 7, start, number);
    leave(RUNTIME, 6, now(), enter()); /* a call that the profiler ignores */
    pthread_mutex_unlock(&lock);
}
void fake_overhead(uint32_t kind, uint64_t took) {
    pthread_mutex_lock(&lock);
    uint8_t *place = record(OVERHEAD);
    uint64_t start = now();
    put32(place, 4, kind);
    put64(place, 24, start);
    put64(place, 32, start + took);
    pthread_mutex_unlock(&lock);
}
/* Records the start or the end of a range that a library marks. */
static void marker(uint32_t flags, uint32_t id, const char *name, const char *domain) {
    uint8_t *place = record(MARKER);
    put32(place, 4, flags);
    put64(place, 8, now());
    put32(place, 16, id);
    put32(place, 20, 2); /* object kind: thread */
    put32(place, 24, (uint32_t)getpid());
    put32(place, 28, (uint32_t)syscall(SYS_gettid));
    put64(place, 40, (uint64_t)(uintptr_t)name);
    put64(place, 48, (uint64_t)(uintptr_t)domain);
}
uint32_t fake_begin(const char *name, const char *domain) {
    static uint32_t last;
    pthread_mutex_lock(&lock);
    marker(2, ++last, name, domain);
    uint32_t id = last;
    pthread_mutex_unlock(&lock);
    return id;
}
void fake_end(uint32_t id) {
    pthread_mutex_lock(&lock);
    marker(4, id, 0, 0);
    pthread_mutex_unlock(&lock);
}
int fake_enables(void) { return enables; }
int fake_finalized(void) { return finalized; }
void fake_be_silent(void) { silent = 1; }
int fake_is_claimed(void) { return is_claimed; }
