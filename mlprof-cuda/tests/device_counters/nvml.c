/* Fake NVML for the counter sampler. Environment variables configure its devices. It aborts if it
 * is called after shutdown or by a process that did not initialise it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, LOST = 15 };

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_sub_system_id;
    char bus_id[32];
};

struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

static volatile int is_over;
static int begun_by;
static unsigned power_calls, utilization_calls;

/* Counters that the tests read. */
unsigned fake_power_calls(void) { return power_calls; }
unsigned fake_utilization_calls(void) { return utilization_calls; }

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

static int has(const char *list, const char *what) {
    const char *value = getenv(list);
    return value && strstr(value, what);
}

static void check(void) {
    if (is_over || begun_by != getpid()) {
        fprintf(stderr, "NVML is used %s\n", is_over ? "after its end" : "after a fork");
        abort();
    }
}

__attribute__((destructor)) static void end(void) {
    is_over = 1;
    usleep(50000);
}

int nvmlInit_v2(void) {
    begun_by = getpid();
    return number("FAKE_NVML_INIT", SUCCESS);
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "570.12.34");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    check();
    *count = number("FAKE_NVML_DEVICES", 3);
    return SUCCESS;
}

/* A handle is the device index plus 1. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    check();
    *device = (void *)(unsigned long)(index + 1);
    return SUCCESS;
}

static unsigned index_of(void *device) {
    check();
    return (unsigned)(unsigned long)device - 1;
}

/* The devices are on the bus in reverse order. */
int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info) {
    memset(info, 0, sizeof *info);
    info->bus = 100 - index_of(device);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-%u0000000-0000", index_of(device));
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    int differ = has("FAKE_NVML_MODELS", "several");
    snprintf(name, length, "Fake %u", differ ? index_of(device) : 0);
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *found) {
    unsigned index = index_of(device);
    utilization_calls++;
    int slow = number("FAKE_NVML_SLOW", 0);
    if (slow)
        usleep(slow);
    while (has("FAKE_NVML_ANSWERS", "never"))
        usleep(1000);
    if (has("FAKE_NVML_LOST", "yes") && utilization_calls > 5)
        return LOST;
    found->gpu = 50 + index;
    found->memory = 20 + index;
    check();
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *found) {
    if (found->version != (sizeof *found | 2 << 24))
        return INVALID_ARGUMENT;
    found->used = (index_of(device) + 1ull) << 30;
    return SUCCESS;
}

/* Alternates between 100 W and 300 W. */
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    index_of(device);
    power_calls++;
    if (has("FAKE_NVML_LACKS", "power"))
        return NOT_SUPPORTED;
    *milliwatts = power_calls % 2 ? 100000 : 300000;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *degrees) {
    *degrees = 60 + index_of(device) + sensor;
    return has("FAKE_NVML_LACKS", "temperature") ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, unsigned clock, unsigned *megahertz) {
    *megahertz = 1000 + 100 * clock + index_of(device);
    return has("FAKE_NVML_LACKS", "clocks") ? NOT_SUPPORTED : SUCCESS;
}
