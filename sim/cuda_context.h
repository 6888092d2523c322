/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of this process, and each thread's stack of them.
 *
 * A handle of a context that was ended stays known as such. All of it is guarded by one mutex,
 * which is taken before the state's lock; contexts_lock is for who looks at a context across
 * several steps.
 */
#pragma once

#include <stdbool.h>

#include "sim/cuda_arena.h"

struct cuda_context {
    struct cuda_context *next;
    CUdevice device;
    unsigned int flags;
    unsigned int retained; /* of a primary one */
    bool primary, live;
    struct arena arena;
};

void contexts_lock(void);
void contexts_unlock(void);

/* The thread's current context: INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED for one that was
 * ended. Locked. */
CUresult context_current(struct cuda_context **ret);

/* Begins a call that needs a current context, locked when it is SUCCESS; context_leave ends both.
 * */
CUresult context_enter(struct cuda_call *c, struct cuda_context **ret);
CUresult context_leave(struct cuda_call *c, struct cuda_context *context, CUresult rc);
