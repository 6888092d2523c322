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

/* Something of a context that ends with it, before its memory; the last one added ends first. */
struct context_part {
    struct context_part *next, **before;
    void (*end)(struct context_part *part); /* with the contexts locked */
};

/* The versions of the API that contexts are of: that of cuCtxCreate, whose addresses and sizes are of
 * 32 bits, and that of all others. */
enum { CONTEXT_OLD_API = 3010, CONTEXT_API = 3020 };

struct cuda_context {
    struct cuda_context *next;
    CUdevice device;
    unsigned int flags;
    unsigned int retained; /* of a primary one */
    unsigned int uses;     /* how often it was attached */
    unsigned int api;
    bool live;
    struct arena arena;
    struct context_part *parts; /* of a live one */
    struct work *work;          /* cuda_work.h: one of the parts, or NULL */
    struct limits *limits;      /* cuda_limit.c: one of the parts, or NULL */
};

/*
 * Begins a call that needs a current context: INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED for
 * one that was ended. With SUCCESS the contexts are locked; context_leave unlocks them, and ends
 * the call.
 */
CUresult context_enter(struct cuda_call *c, struct cuda_context **ret);
CUresult context_leave(struct cuda_call *c, struct cuda_context *context, CUresult rc);

/* The current context of this thread; NULL: there is none, or it was ended. Locked. */
struct cuda_context *context_current(void);

/* For who does not begin and end a call. To wait for a condition leaves the contexts unlocked while
 * it lasts: what was found before may be gone. */
void context_lock(void);
void context_unlock(void);
void context_wait(pthread_cond_t *cond);

/* SUCCESS for a context that lives; INVALID_CONTEXT, CONTEXT_IS_DESTROYED. Locked. */
CUresult context_check(const struct cuda_context *c);

/* A device's primary context, which may be ended; is that one? Locked. */
struct cuda_context *context_primary(CUdevice device);
bool context_is_primary(const struct cuda_context *c);

/* A new context, and one that is begun again: OUT_OF_MEMORY, DEVICE_UNAVAILABLE. Its end. Locked. */
CUresult context_new(CUdevice device, unsigned int flags, unsigned int api,
                     struct cuda_context **ret);
CUresult context_begin(struct cuda_context *c, unsigned int api);
void context_end(struct cuda_context *c);
bool context_are_flags(unsigned int flags);

/* This thread's stack: its top, which may be ended, or NULL. OUT_OF_MEMORY when it is full. */
struct cuda_context *context_top(void);
CUresult context_push(struct cuda_context *c);
void context_pop(void);

/* Lets something end with a context, which is live; or no more. Locked. */
void context_add_part(struct cuda_context *context, struct context_part *part);
void context_remove_part(struct context_part *part);
