/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/calls.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define CALL(name, class)                {#name, CALL_##class},
#define CUDA(symbol, class, name, since) {#symbol, CALL_##class},
static const struct {
    const char *name;
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

unsigned int call_find(const char *name)
{
    enum call_library library = library_in(name);
    for (unsigned int id = 0; id < CALL_COUNT; id++) {
        if (library != LIBRARY_ANY && library != call_library_of(id))
            continue;
        if (stands_for(bare(name), bare(table[id].name)))
            return id;
    }
    return CALL_COUNT;
}
