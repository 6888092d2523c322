/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/shares.h"

/*
 * Shares whose containers go beyond them, as the driver shows it (nodeagent/audit). For those who
 * report; a plain value, which borrows its texts.
 */
#define BREACH_OVER_LIMIT "ShareOverLimit"
#define BREACH_UNLIMITED  "ShareUnlimited"

struct share_breach {
    unsigned slot;
    const char *uid, *container; /* of its pod: the slot may be another's by now */
    int64_t since_ms;            /* wall clock */
    const char *reason;          /* static */
    const char *message;
};

struct share_breaches {
    const struct share_breach *items; /* in any order, at most one for each slot */
    size_t n;
};

/* The share's; NULL: there is none. Borrowed. */
static inline const struct share_breach *share_breach_of(const struct share_breaches *b,
                                                         const struct share *s)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->items[i].slot == s->slot && share_is_of(s, b->items[i].uid, b->items[i].container))
            return &b->items[i];
    return NULL;
}
