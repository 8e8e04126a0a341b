/* CUDA's driver, as far as capturing goes: writes what is called to the file that NVTX_RECORD names. */

#include <stdio.h>
#include <stdlib.h>

static int note(const char *text) {
    FILE *record = fopen(getenv("NVTX_RECORD"), "a");
    if (!record) return 999;
    fprintf(record, "%s\n", text);
    fclose(record);
    return getenv("NO_CONTEXT") ? 201 : 0;
}

int cuProfilerStart(void) { return note("cuProfilerStart"); }
int cuProfilerStop(void) { return note("cuProfilerStop"); }
