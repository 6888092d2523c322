/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_reach.h"

#include <string.h>

#include "sim/cuda_host.h"

bool reach_knows(uint64_t address, size_t bytes, bool writes)
{
    if (range_allows(address, bytes, writes))
        return true;
    const struct host_range *r = host_find(address);
    return r != NULL && bytes <= r->bytes - (address - (uintptr_t)r->base);
}

bool reach_find(uint64_t address, size_t bytes, enum side side, bool writes, bool *ret_pageable)
{
    *ret_pageable = !reach_knows(address, bytes, writes);
    if (!*ret_pageable)
        return true;
    return side != SIDE_DEVICE && address != 0 && range_find(address) == NULL;
}

void reach_fill(void *at, unsigned int width, uint32_t value, size_t bytes)
{
    uint16_t *halves = at;
    uint32_t *words = at;
    if (width == 1)
        memset(at, (int)value, bytes);
    for (size_t i = 0; width == 2 && i < bytes / 2; i++)
        halves[i] = (uint16_t)value;
    for (size_t i = 0; width == 4 && i < bytes / 4; i++)
        words[i] = value;
}
