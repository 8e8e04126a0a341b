/* Fake CUDA driver for the CUPTI tests: cc -shared -fPIC -o libcuda.so.1 driver.c
 *
 * It has one device, similar to an H100. Attributes that no test needs return an error. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int waits;

uint32_t cuInit(uint32_t flags) { return flags; }
uint32_t cuDriverGetVersion(int *version) { *version = 12090; return 0; }
uint32_t cuDeviceGetCount(int *count) { *count = 1; return 0; }
uint32_t cuDeviceGet(int *device, int number) { *device = number; return number == 0 ? 0 : 101; }
uint32_t cuDeviceGetName(char *name, int room, int device) {
    (void)device;
    strncpy(name, "A device of the tests", (size_t)room);
    return 0;
}
uint32_t cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 80ull << 30; return 0; }
uint32_t cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 1: *value = 1024; return 0;   /* threads per block */
    case 8: *value = 49152; return 0;  /* shared memory per block */
    case 10: *value = 32; return 0;    /* warp size */
    case 12: *value = 65536; return 0; /* registers per block */
    case 16: *value = 132; return 0;   /* multiprocessors */
    case 39: *value = 2048; return 0;  /* threads per multiprocessor */
    case 75: *value = 9; return 0;     /* compute capability */
    case 76: *value = 0; return 0;
    case 81: *value = 233472; return 0; /* shared memory per multiprocessor */
    case 82: *value = 65536; return 0;  /* registers per multiprocessor */
    case 97: *value = 232448; return 0; /* maximum shared memory per block */
    case 106: *value = 32; return 0;    /* blocks per multiprocessor */
    case 111: *value = 1024; return 0;  /* reserved shared memory per block */
    default: return 1;
    }
}
uint32_t cuCtxGetCurrent(void **context) { *context = &waits; return 0; }
uint32_t cuCtxSynchronize(void) { waits++; return 0; }
int fake_waits(void) { return waits; }

#define FAILS(name) uint32_t name(void) { return 999; }
FAILS(cuCtxPushCurrent_v2) FAILS(cuCtxPopCurrent_v2) FAILS(cuCtxGetDevice) FAILS(cuEventCreate)
FAILS(cuEventRecord) FAILS(cuEventQuery) FAILS(cuEventSynchronize) FAILS(cuEventElapsedTime)
FAILS(cuEventDestroy_v2) FAILS(cuStreamCreate) FAILS(cuStreamDestroy_v2) FAILS(cuGetErrorName)
FAILS(cuDevicePrimaryCtxRetain) FAILS(cuDevicePrimaryCtxGetState) FAILS(cuDevicePrimaryCtxRelease_v2)
FAILS(cuProfilerStart) FAILS(cuProfilerStop)
