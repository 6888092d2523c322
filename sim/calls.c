/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/calls.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define CALL(name, class)                {#name, NULL, CALL_##class},
#define CUDA(symbol, class, name, since) {#symbol, #name, CALL_##class},
static const struct {
    const char *name;
    const char *common; /* to the versions of one function of CUDA's; NULL: another library's */
    enum call_class class;
} table[CALL_COUNT] = {
#include "sim/calls.def"
#include "sim/cuda_calls.def"
#include "sim/mxsml_calls.def"
};
#undef CALL
#undef CUDA

const char *call_name(unsigned int id)
{
    assert(id < CALL_COUNT);
    return table[id].name;
}

enum call_class call_class_of(unsigned int id)
{
    assert(id < CALL_COUNT);
    return table[id].class;
}

enum call_library call_library_of(unsigned int id)
{
    assert(id < CALL_COUNT);
    if (id < CALL_cuInit)
        return LIBRARY_NVML;
    return id < CALL_mxSmlInit ? LIBRARY_CUDA : LIBRARY_MXSML;
}

/* The library that the name's prefix shows. */
static enum call_library library_in(const char *name)
{
    if (strncmp(name, "nvml", 4) == 0)
        return LIBRARY_NVML;
    if (strncmp(name, "mxSml", 5) == 0)
        return LIBRARY_MXSML;
    return strncmp(name, "cu", 2) == 0 ? LIBRARY_CUDA : LIBRARY_ANY;
}

static const char *bare(const char *name)
{
    static const size_t prefix[] = {[LIBRARY_ANY] = 0,
                                    [LIBRARY_NVML] = sizeof("nvml") - 1,
                                    [LIBRARY_MXSML] = sizeof("mxSml") - 1,
                                    [LIBRARY_CUDA] = sizeof("cu") - 1};
    return name + prefix[library_in(name)];
}

/* "DeviceGetCount" matches "DeviceGetCount_v2": equal up to a version suffix. */
static bool stands_for(const char *asked, const char *name)
{
    size_t length = strlen(asked);
    if (strncmp(asked, name, length) != 0)
        return false;
    return name[length] == '\0' || strncmp(name + length, "_v", 2) == 0;
}

/* Is it one of those with a default stream of each thread? */
static bool is_per_thread(const char *symbol)
{
    const char *end = strrchr(symbol, '_');
    return end != NULL && (strcmp(end, "_ptsz") == 0 || strcmp(end, "_ptds") == 0);
}

/* The newest version, where a function of CUDA's is meant by the name that its versions share. */
static unsigned int newest(unsigned int found, const char *asked)
{
    unsigned int last = found;
    if (table[found].common == NULL || strcmp(bare(asked), bare(table[found].common)) != 0)
        return found;
    for (unsigned int id = 0; id < CALL_COUNT; id++) {
        const char *common = table[id].common;
        if (common != NULL && strcmp(common, table[found].common) == 0 &&
            !is_per_thread(table[id].name))
            last = id;
    }
    return last;
}

unsigned int call_find(const char *name)
{
    enum call_library library = library_in(name);
    for (unsigned int id = 0; id < CALL_COUNT; id++) {
        if (library != LIBRARY_ANY && library != call_library_of(id))
            continue;
        if (stands_for(bare(name), bare(table[id].name)))
            return newest(id, name);
    }
    return CALL_COUNT;
}
