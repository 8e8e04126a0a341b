/* Fake CUDA driver with contexts, streams and events.

   Only launches and fake_advance advance the device's clock. Each stream has the time at which its
   work ends, and an event records this time. An event completes when the device runs (fake_run) or
   when a caller waits for it. The fake counts and logs all calls, and tests can make each of them
   fail. Misuse ends the process. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM = 0x5354, EVENT = 0x4556, CONTEXT = 0x4354 };

typedef struct Context Context;

typedef struct Stream {
    int kind;
    Context *context;
    long time; /* end of its work in ns */
    long done; /* end of its completed work in ns */
    int capturing;
} Stream;

struct Context {
    int kind;
    int device;
    Stream none;
};

typedef struct {
    int kind;
    Context *context;
    Stream *stream; /* null: never recorded */
    long time;
} Event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char record[1 << 20];
static size_t recorded;
static int counts[64];
static const char *names[64];
static const char *failing = "";
static int failure, primaries;
static long now;
static Stream *streams[256];
static int stream_count;
static __thread Context *stack[64];
static __thread int depth;

static void misuse(const char *what) {
    fprintf(stderr, "driver.c: %s\n", what);
    _Exit(77);
}

/* Takes the lock. Returns the error code that the test set for this function, or 0. */
static int enter(const char *name) {
    pthread_mutex_lock(&lock);
#ifdef LEAN
    (void)name;
    return 0;
#endif
    int slot = 0;
    while (names[slot] && strcmp(names[slot], name)) slot++;
    names[slot] = name;
    counts[slot]++;
    if (recorded + strlen(name) + 2 < sizeof record)
        recorded += (size_t)sprintf(record + recorded, "%s\n", name);
    return strcmp(failing, name) ? 0 : failure;
}

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

#define ENTER(name) { int refused = enter(name); if (refused) return leave(refused); }

static Context *current(void) { return depth ? stack[depth - 1] : NULL; }

static Stream *stream_of(void *handle) {
    if ((unsigned long)handle <= 2) {
        if (!current()) misuse("the default stream of no context");
        return &current()->none;
    }
    Stream *stream = handle;
    if (stream->kind != STREAM) misuse("no stream");
    return stream;
}

static Event *event_of(void *handle) {
    Event *event = handle;
    if (!event || event->kind != EVENT) misuse("no event");
    return event;
}

static void add(Stream *stream, Context *context) {
    stream->kind = STREAM;
    stream->context = context;
    if (stream_count == 256) misuse("too many streams");
    streams[stream_count++] = stream;
}

int cuInit(unsigned flags) {
    ENTER("cuInit");
    const char *code = getenv("FAKE_INIT_FAILS");
    return leave(flags ? 1 : code ? atoi(code) : 0);
}

int cuDriverGetVersion(int *version) { ENTER("cuDriverGetVersion"); *version = 13000; return leave(0); }

int cuCtxGetCurrent(void **context) {
    ENTER("cuCtxGetCurrent");
    *context = current();
    return leave(0);
}

int cuCtxPushCurrent_v2(void *context) {
    ENTER("cuCtxPushCurrent_v2");
    if (!context || ((Context *)context)->kind != CONTEXT) misuse("no context");
    if (depth == 64) misuse("pushed without end");
    stack[depth++] = context;
    return leave(0);
}

int cuCtxPopCurrent_v2(void **context) {
    ENTER("cuCtxPopCurrent_v2");
    if (!depth) misuse("popped more than was pushed");
    *context = stack[--depth];
    return leave(0);
}

int cuCtxGetDevice(int *device) {
    ENTER("cuCtxGetDevice");
    if (!current()) return leave(201);
    *device = current()->device;
    return leave(0);
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    ENTER("cuDevicePrimaryCtxRetain");
    (void)device;
    *context = NULL; /* the fake has no primary contexts */
    primaries++;
    return leave(0);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER("cuDevicePrimaryCtxRelease_v2");
    (void)device;
    primaries--;
    return leave(0);
}

int cuEventCreate(void **event, unsigned flags) {
    ENTER("cuEventCreate");
    if (!current() || flags) misuse("an event without a context, or without times");
    Event *made = calloc(1, sizeof *made);
    made->kind = EVENT;
    made->context = current();
    *event = made;
    return leave(0);
}

int cuEventRecord(void *handle, void *on) {
    ENTER("cuEventRecord");
    Event *event = event_of(handle);
    Stream *stream = stream_of(on);
    if (event->context != stream->context || event->context != current()) misuse("another context");
    if (stream->capturing) misuse("recorded into a graph");
    if (stream->time < now) stream->time = now;
    event->stream = stream;
    event->time = stream->time;
    return leave(0);
}

int cuEventQuery(void *handle) {
    ENTER("cuEventQuery");
    Event *event = event_of(handle);
    if (!event->stream) misuse("asked before it was recorded");
    return leave(event->time <= event->stream->done ? 0 : 600);
}

int cuEventSynchronize(void *handle) {
    ENTER("cuEventSynchronize");
    Event *event = event_of(handle);
    if (event->stream && event->stream->done < event->time) event->stream->done = event->time;
    return leave(0);
}

static int elapsed(float *milliseconds, void *from, void *to) {
    Event *start = event_of(from), *end = event_of(to);
    if (!start->stream || !end->stream || start->context != end->context) return 400;
    if (end->time > end->stream->done) return 600;
    *milliseconds = (float)((double)(end->time - start->time) * 1e-6);
    return 0;
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    ENTER("cuEventElapsedTime");
    return leave(elapsed(milliseconds, from, to));
}

int cuEventDestroy_v2(void *handle) {
    ENTER("cuEventDestroy_v2");
    event_of(handle)->kind = 0;
    free(handle);
    return leave(0);
}

int cuStreamCreate(void **stream, unsigned flags) {
    ENTER("cuStreamCreate");
    if (!current() || flags != 1) misuse("a stream without a context, or one that waits");
    Stream *made = calloc(1, sizeof *made);
    add(made, current());
    *stream = made;
    return leave(0);
}

int cuStreamDestroy_v2(void *stream) {
    ENTER("cuStreamDestroy_v2");
    stream_of(stream)->kind = 0; /* not freed, because its events may still refer to it */
    return leave(0);
}

int cuStreamSynchronize(void *stream) { ENTER("cuStreamSynchronize"); (void)stream; return leave(0); }
int cuCtxSynchronize(void) { ENTER("cuCtxSynchronize"); return leave(0); }
int cuDeviceGet(int *device, int number) { ENTER("cuDeviceGet"); *device = number; return leave(0); }
int cuDeviceGetCount(int *count) { ENTER("cuDeviceGetCount"); *count = 2; return leave(0); }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER("cuDeviceGetAttribute");
    *value = attribute + device;
    return leave(0);
}

int cuDeviceGetName(char *name, int length, int device) {
    ENTER("cuDeviceGetName");
    snprintf(name, (size_t)length, "fake %d", device);
    return leave(0);
}

#ifndef ANCIENT
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    ENTER("cuDeviceTotalMem_v2");
    *bytes = 1024u * (unsigned)(device + 1);
    return leave(0);
}
#endif

int cuGetErrorName(unsigned code, const char **name) {
    static char text[32];
    snprintf(text, sizeof text, "FAKE_ERROR_%u", code);
    *name = text;
    return 0;
}

#ifndef OLD
int cuEventElapsedTime_v2(float *milliseconds, void *from, void *to) {
    ENTER("cuEventElapsedTime_v2");
    return leave(elapsed(milliseconds, from, to));
}

int cuStreamGetCtx(void *stream, void **context) {
    ENTER("cuStreamGetCtx");
    *context = stream_of(stream)->context;
    return leave(0);
}

int cuStreamIsCapturing(void *stream, int *status) {
    ENTER("cuStreamIsCapturing");
    *status = stream_of(stream)->capturing;
    return leave(*status == 2 ? 906 : 0);
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    static __thread int own;
    ENTER("cuThreadExchangeStreamCaptureMode");
    int before = own;
    own = *mode;
    *mode = before;
    return leave(0);
}
#endif

/* Functions for the tests. */

void *fake_context(int device) {
    Context *context = calloc(1, sizeof *context);
    context->kind = CONTEXT;
    context->device = device;
    add(&context->none, context);
    return context;
}

/* Sets the current context of the thread, or none. */
void fake_set_current(void *context) {
    depth = 0;
    if (context) stack[depth++] = context;
}

void *fake_current(void) { return current(); }
int fake_depth(void) { return depth; }
int fake_primaries(void) { return primaries; }

void *fake_stream(void *context) {
    Stream *made = calloc(1, sizeof *made);
    add(made, context);
    return made;
}

/* Launches work that takes `nanoseconds`. */
void fake_launch(void *handle, long nanoseconds) {
    pthread_mutex_lock(&lock);
    Stream *stream = stream_of(handle);
    if (stream->time < now) stream->time = now;
    stream->time += nanoseconds;
    pthread_mutex_unlock(&lock);
}

/* Completes the work of all streams. */
void fake_run(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < stream_count; i++) streams[i]->done = streams[i]->time;
    pthread_mutex_unlock(&lock);
}

/* Advances the clock without work. */
void fake_advance(long nanoseconds) {
    pthread_mutex_lock(&lock);
    now += nanoseconds;
    pthread_mutex_unlock(&lock);
}

void fake_capture(void *stream, int how) { stream_of(stream)->capturing = how; }

void fake_fail(const char *name, int code) {
    failing = name;
    failure = code;
}

int fake_calls(const char *name) {
    for (int slot = 0; slot < 64 && names[slot]; slot++)
        if (!strcmp(names[slot], name)) return counts[slot];
    return 0;
}

const char *fake_record(void) { return record; }

void fake_forget(void) {
    recorded = 0;
    record[0] = 0;
}
