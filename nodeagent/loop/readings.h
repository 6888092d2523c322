/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"

/*
 * When the node is read, and why the newest reading failed. Decides nothing about cards and does no
 * I/O; the loop's thread only.
 */
struct readings {
    /* Set before the first use; borrowed. */
    const struct clock *clk;
    struct rng *rng;
    int64_t resync_ms; /* pause between two readings that succeed */

    bool due;             /* as soon as the worker is free */
    int64_t next_mono_ms; /* without any event; after a failure no reading comes before that */
    bool regular;         /* that is the whole pause after the newest reading */
    char *error;          /* owned; NULL: the newest reading succeeded, or there was none */
    const char *reason;   /* of the condition; static; valid with `error` */
    struct backoff backoff;
};

/* A first reading is due. */
void readings_init(struct readings *r, const struct clock *clk, struct rng *rng, int64_t resync_ms);
/* A reading that is wanted at its time becomes due. Not while one is under way: that one sets the
 * next time when it ends. */
void readings_tick(struct readings *r);
/* A reading began. */
void readings_begin(struct readings *r);
/* A reading has ended, at now_mono_ms, and is used. complete: all cards could be read;
 * else the next one comes after a growing pause. */
void readings_succeeded(struct readings *r, int64_t now_mono_ms, bool complete);
/* A reading, or a part of it, failed. Logs each reason once; the next one comes after a growing
 * pause. reason is static. */
void readings_failed(struct readings *r, const char *reason, const struct err *why);
void readings_done(struct readings *r);
