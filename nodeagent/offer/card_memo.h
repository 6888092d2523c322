/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "nodeagent/change/transaction.h"

/*
 * The agent's memory of its attempts to give one card the layout that the spec wants, and the words
 * in which the status reports them. Pure values.
 */

/* How far the agent is with one card that the spec lists. */
enum card_progress {
    PROGRESS_NONE,    /* the spec wants nothing of the card */
    PROGRESS_PENDING, /* to be attempted: due, waiting for its withdrawal, or at the worker */
    PROGRESS_DONE,    /* the newest attempt has ended: result says how, also when it failed */
    PROGRESS_REFUSED, /* nothing can be attempted now; see refusal */
};

struct card_memo {
    char uuid[GPU_UUID_BYTES +
              1]; /* as the spec writes it: one sign longer than any card's, at most */
    enum card_progress progress;
    struct txn_result result;
    char refusal[384];
    const char *refusal_reason; /* static */
    bool beginning; /* an attempt is about to begin or runs: what it destroys is not on offer */
    int64_t drain_since_ms;    /* wall clock; 0: no drain is under way */
    int64_t drain_deadline_ms; /* wall clock; 0: no deadline */
};

/* True once the time allowed for evicting pods is over. */
bool card_memo_drain_is_over(const struct card_memo *m, int64_t now_ms);
/* True while pods that hold what has to go are being evicted. want NULL: false. */
bool card_memo_drains(const struct device_want *want, const struct card_memo *m, int64_t now_ms);

/* The reason of docs/api.md for the result of the newest attempt, for conditions and Events alike.
 * want NULL: the card is no longer wanted. Static. */
const char *card_memo_reason(const struct device_want *want, const struct card_memo *m,
                             int64_t now_ms);
