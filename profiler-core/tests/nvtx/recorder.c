/* NVTX tool that appends a line for each call to the file NVTX_RECORD.
 *
 * With -DNVIDIA_HEADERS, it uses the declarations of NVIDIA's nvtx3, which must be in the include
 * path. Otherwise it uses its own. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef NVIDIA_HEADERS
#include <nvtx3/nvToolsExt.h>
typedef NvtxFunctionTable Table;
typedef NvtxFunctionPointer Function;
typedef NvtxExportTableCallbacks Callbacks;
typedef nvtxEventAttributes_t Attributes;
#define MESSAGE(attributes) ((attributes)->message.ascii)
#define PAYLOAD(attributes) ((attributes)->payload.ullValue)
#else
typedef void (*Function)(void);
typedef Function **Table;
typedef struct {
    size_t struct_size;
    int (*GetModuleFunctionTable)(int module, Table *table, unsigned int *size);
} Callbacks;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    uint64_t payload;
    int32_t messageType;
    const char *message;
} Attributes;
#define MESSAGE(attributes) ((attributes)->message)
#define PAYLOAD(attributes) ((attributes)->payload)
#endif

static FILE *record;
static uint64_t ranges;

/* The variable's address identifies the thread. */
static __thread int depth;

static void say_attributes(const Attributes *attributes) {
    fprintf(record, " v%u/%u category %u message %d %s", attributes->version, attributes->size,
            attributes->category, attributes->messageType, MESSAGE(attributes));
    if (attributes->payloadType)
        fprintf(record, " payload %d %llu", attributes->payloadType,
                (unsigned long long)PAYLOAD(attributes));
    fputc('\n', record);
}

static void *create(const char *name) {
    fprintf(record, "domain %s\n", name);
    return record;
}

static void category(void *domain, uint32_t number, const char *name) {
    fprintf(record, "%scategory %u %s\n", domain == record ? "" : "foreign ", number, name);
}

static void *registered(void *domain, const char *text) {
    fprintf(record, "%sname %s\n", domain == record ? "" : "foreign ", text);
    return strdup(text);
}

static int push(void *domain, const Attributes *attributes) {
    flockfile(record);
    fprintf(record, "%spush %p", domain == record ? "" : "foreign ", (void *)&depth);
    say_attributes(attributes);
    funlockfile(record);
    return depth++;
}

static int pop(void *domain) {
    fprintf(record, "%spop %p\n", domain == record ? "" : "foreign ", (void *)&depth);
    return --depth;
}

static uint64_t start(void *domain, const Attributes *attributes) {
    flockfile(record);
    fprintf(record, "%sstart %llu", domain == record ? "" : "foreign ",
            (unsigned long long)++ranges);
    say_attributes(attributes);
    funlockfile(record);
    return ranges;
}

static void end(void *domain, uint64_t range) {
    fprintf(record, "%send %llu\n", domain == record ? "" : "foreign ", (unsigned long long)range);
}

int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {
    const char *path = getenv("NVTX_RECORD");
    const Callbacks *callbacks = get(1);
    Table table = 0;
    unsigned int size = 0;
    if (!path || !callbacks || callbacks->struct_size < sizeof *callbacks || get(2) || get(9))
        return 0;
    /* Unknown modules must fail, and the tables of all known modules must be writable. */
    if (callbacks->GetModuleFunctionTable(0, &table, &size)) return 0;
    if (callbacks->GetModuleFunctionTable(7, &table, &size)) return 0;
    static const unsigned int sizes[] = {0, 16, 9, 15, 7, 16, 7};
    for (int module = 1; module <= 6; module++) {
        if (!callbacks->GetModuleFunctionTable(module, &table, &size)) return 0;
        if (size != sizes[module] || table[0] || table[size]) return 0;
        for (unsigned int number = 1; number < size; number++) *table[number] = 0;
    }
    if (!callbacks->GetModuleFunctionTable(5, &table, &size)) return 0;
    record = fopen(path, "a");
    if (!record) return 0;
    setvbuf(record, 0, _IOLBF, 0);
    *table[2] = (Function)start;
    *table[3] = (Function)end;
    *table[4] = (Function)push;
    *table[5] = (Function)pop;
    *table[8] = (Function)category;
    *table[10] = (Function)registered;
    *table[12] = (Function)create;
    return 1;
}
