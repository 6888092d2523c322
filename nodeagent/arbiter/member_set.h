/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/region.h"

/* Some of the members of a share, by their numbers, which are below REGION_MAX_PROCESSES. */
struct member_set {
    uint64_t words[REGION_MAX_PROCESSES / 64];
};

static inline void member_set_put(struct member_set *m, unsigned i)
{
    m->words[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void member_set_drop(struct member_set *m, unsigned i)
{
    m->words[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static inline bool member_set_is_empty(const struct member_set *m)
{
    for (unsigned i = 0; i < REGION_MAX_PROCESSES / 64; i++)
        if (m->words[i])
            return false;
    return true;
}
