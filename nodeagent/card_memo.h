/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "nodeagent/transaction.h"

/*
 * What the agent remembers of its attempts to give one card the layout that its spec wants, and
 * what the status says of them. Pure values.
 */

/* How far the agent is with one card that the spec lists. */
enum card_progress {
    PROGRESS_NONE,    /* nothing is wanted of the card */
    PROGRESS_PENDING, /* queued, or in the worker's hands */
    PROGRESS_DONE,    /* result tells */
    PROGRESS_REFUSED, /* the wish does not make sense on this card: refusal tells */
};

struct card_memo {
    char uuid[GPU_UUID_BYTES];
    enum card_progress progress;
    struct txn_result result;
    char refusal[384];
    const char *refusal_reason; /* static */
    bool beginning; /* what the attempt takes away, which is about to begin or runs, is not offered
                     */
    int64_t drain_since_ms;    /* wall clock; 0: not waiting */
    int64_t drain_deadline_ms; /* wall clock; 0: none */
};

/* The time is over within which pods were to be evicted. */
bool card_memo_drain_is_over(const struct card_memo *m, int64_t now_ms);
/* Pods that hold what has to go are being evicted, if there are any. want NULL: no. */
bool card_memo_drains(const struct device_want *want, const struct card_memo *m, int64_t now_ms);

/* The reason of docs/api.md for the result of the newest attempt, in conditions and Events alike;
 * want NULL: the card is wanted no more. Static. */
const char *card_memo_reason(const struct device_want *want, const struct card_memo *m,
                             int64_t now_ms);
