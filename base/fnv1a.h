/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The FNV-1a hash of the bytes (draft-eastlake-fnv). Where a peer chooses them, a random seed keeps
 * it from choosing collisions; 0 gives the published function. */
static inline uint64_t fnv1a(uint64_t seed, const char *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}
