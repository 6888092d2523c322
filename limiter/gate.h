/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When this process's work may go to a card: as the gate of the card says (region.h), which the
 * agent writes. While all gates are open a launch reads one word and does nothing else.
 *
 * A thread for each card with a context waits for the agent's word, and answers when the card has
 * finished what this process gave it. It runs nothing of the program's, and sleeps while nobody
 * else wants the card and the claim is not capped.
 */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"
#include "limiter/share.h"

static inline bool gate_is_open(void)
{
    const uint32_t *heed = __atomic_load_n(&share_heed, __ATOMIC_RELAXED);
    return __builtin_expect(__atomic_load_n(heed, __ATOMIC_RELAXED) == 0, 1);
}

/* One piece of work, from before it is given to the card until after. */
struct gate_pass {
    int card; /* -1: none of the share's */
    bool bounded;
    CUcontext context;
    CUstream stream;
};

/* Waits until the work may go to the card of the current context. What is captured runs later. */
void gate_enter(struct gate_pass *g, CUstream stream);
/* After it was given. Waits while too much is in flight. Returns rc, the card's answer. */
CUresult gate_leave(const struct gate_pass *g, CUresult rc);

/* Starts the thread of a card, if it does not run yet. */
void gate_serve(int card);
