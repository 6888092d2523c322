/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/rng.h"

#include "nodeagent/slots/pod_reader.h"

/*
 * Whether the agent's account may read pods: most may not; config/slots has one for nodes with
 * slots. Every answer of the API server shows it; while nothing asks for a pod, a request made for
 * this purpose does. One thread.
 */
struct pod_right {
    struct pod_reader *pods; /* borrowed, as clk and rng */
    const struct clock *clk;
    struct rng *rng;
    struct backoff backoff;
    bool forbidden;
    bool asked;          /* at least once */
    int64_t due_mono_ms; /* next question about the right; INT64_MAX: none needed, or an answer is
                            under way */
};

/* Why no pod can be read, with the remedy. */
extern const char pod_right_missing[];

/* Asks where needed: once, and again from time to time while the API server refuses. Never
 * blocks. */
void pod_right_ask(struct pod_right *r, bool needed);
/* Takes any answer of the reader. */
void pod_right_note(struct pod_right *r, const struct pod_answer *a);
