/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/region.h"

/*
 * Some of the processes of one container, by their slots in usage (below REGION_MAX_PROCESSES). A
 * plain value; zero is the empty set.
 */
struct member_set {
    uint64_t words[REGION_MAX_PROCESSES / 64];
};

#define MEMBER_WORDS (REGION_MAX_PROCESSES / 64)

static inline void member_set_put(struct member_set *s, unsigned member)
{
    s->words[member / 64] |= UINT64_C(1) << member % 64;
}

static inline void member_set_drop(struct member_set *s, unsigned member)
{
    s->words[member / 64] &= ~(UINT64_C(1) << member % 64);
}

static inline bool member_set_has(const struct member_set *s, unsigned member)
{
    return s->words[member / 64] >> member % 64 & 1;
}

static inline bool member_set_is_empty(const struct member_set *s)
{
    uint64_t any = 0;
    for (unsigned i = 0; i < MEMBER_WORDS; i++)
        any |= s->words[i];
    return any == 0;
}

static inline void member_set_add(struct member_set *s, const struct member_set *more)
{
    for (unsigned i = 0; i < MEMBER_WORDS; i++)
        s->words[i] |= more->words[i];
}

/* Those of a that are not in b. */
static inline struct member_set member_set_without(const struct member_set *a,
                                                   const struct member_set *b)
{
    struct member_set left;
    for (unsigned i = 0; i < MEMBER_WORDS; i++)
        left.words[i] = a->words[i] & ~b->words[i];
    return left;
}
