/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of this process, and each thread's stack of them.
 *
 * A handle of a context that was ended stays known as such. One mutex guards all contexts and their
 * memory; it is taken before the state's lock.
 */
#pragma once

#include <stdbool.h>

#include "sim/cuda_arena.h"

struct cuda_context {
    struct cuda_context *next;
    CUdevice device;
    unsigned int flags;
    unsigned int retained; /* of a primary one */
    bool live;
    struct arena arena;
};

/*
 * Begins a call that needs a current context: INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED for
 * one that was ended. With SUCCESS the contexts are locked; context_leave unlocks them, and ends
 * the call.
 */
CUresult context_enter(struct cuda_call *c, struct cuda_context **ret);
CUresult context_leave(struct cuda_call *c, struct cuda_context *context, CUresult rc);
