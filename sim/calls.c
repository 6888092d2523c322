/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/calls.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define CALL(name, class) {#name, CALL_##class},
static const struct {
    const char *name;
    enum call_class class;
} table[CALL_COUNT] = {
#include "sim/calls.def"
};
#undef CALL

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

static const char *bare(const char *name)
{
    return strncmp(name, "nvml", 4) == 0 ? name + 4 : name;
}

/* "DeviceGetCount" stands for "DeviceGetCount_v2": equal up to a version suffix. */
static bool stands_for(const char *asked, const char *name)
{
    size_t length = strlen(asked);
    if (strncmp(asked, name, length) != 0)
        return false;
    return name[length] == '\0' || strncmp(name + length, "_v", 2) == 0;
}

unsigned int call_find(const char *name)
{
    for (unsigned int id = 0; id < CALL_COUNT; id++) {
        if (stands_for(bare(name), bare(table[id].name)))
            return id;
    }
    return CALL_COUNT;
}
