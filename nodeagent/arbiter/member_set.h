/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/region.h"

/*
 * Some of the processes of one container, by their slots in usage (below REGION_MAX_PROCESSES). A
 * plain value; zero is the empty set. How many they are is counted along, since most questions are
 * whether there is any.
 */
struct member_set {
    unsigned n;
    uint64_t words[REGION_MAX_PROCESSES / 64];
};

#define MEMBER_WORDS (REGION_MAX_PROCESSES / 64)

static inline bool member_set_has(const struct member_set *s, unsigned member)
{
    return s->words[member / 64] >> member % 64 & 1;
}

static inline bool member_set_is_empty(const struct member_set *s)
{
    return s->n == 0;
}

static inline void member_set_put(struct member_set *s, unsigned member)
{
    s->n += !member_set_has(s, member);
    s->words[member / 64] |= UINT64_C(1) << member % 64;
}

static inline void member_set_drop(struct member_set *s, unsigned member)
{
    s->n -= member_set_has(s, member);
    s->words[member / 64] &= ~(UINT64_C(1) << member % 64);
}

static inline void member_set_empty(struct member_set *s)
{
    if (s->n > 0)
        *s = (struct member_set){0};
}

static inline void member_set_count(struct member_set *s)
{
    s->n = 0;
    for (unsigned i = 0; i < MEMBER_WORDS; i++)
        s->n += (unsigned)__builtin_popcountll(s->words[i]);
}

static inline void member_set_add(struct member_set *s, const struct member_set *more)
{
    for (unsigned i = 0; i < MEMBER_WORDS && more->n > 0; i++)
        s->words[i] |= more->words[i];
    member_set_count(s);
}

/* Those of a that are not in b. */
static inline struct member_set member_set_without(const struct member_set *a,
                                                   const struct member_set *b)
{
    struct member_set left = *a;
    for (unsigned i = 0; i < MEMBER_WORDS && b->n > 0; i++)
        left.words[i] &= ~b->words[i];
    member_set_count(&left);
    return left;
}
