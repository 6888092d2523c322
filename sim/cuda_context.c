/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_context.h"

#include <stdlib.h>

#include "sim/cuda_capture_mode.h"
#include "sim/cuda_room.h"

#define MAX_DEPTH 64

/* Assumed: what the driver takes for a context of its own, as it is seen with CUDA 12 on cards of
 * 80 GiB. */
#define CONTEXT_BYTES (UINT64_C(448) << 20U)

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_context *contexts;
static struct cuda_context primaries[HW_MAX_GPUS];

static _Thread_local struct {
    struct cuda_context *at[MAX_DEPTH];
    unsigned int depth;
} stack;

static void unlock_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, unlock_after_fork);
}

void context_lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

void context_unlock(void)
{
    (void)pthread_mutex_unlock(&mu);
}

void context_wait(pthread_cond_t *cond)
{
    (void)pthread_cond_wait(cond, &mu);
}

bool context_is_primary(const struct cuda_context *c)
{
    return c >= primaries && c < primaries + HW_MAX_GPUS;
}

/* A context that is or was. Locked. */
static bool is_known(const struct cuda_context *c)
{
    if (context_is_primary(c))
        return true;
    for (const struct cuda_context *i = contexts; i != NULL; i = i->next) {
        if (i == c)
            return true;
    }
    return false;
}

CUresult context_check(const struct cuda_context *c)
{
    if (c == NULL || !is_known(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    return c->live ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

struct cuda_context *context_primary(CUdevice device)
{
    primaries[device].device = device;
    return &primaries[device];
}

/* --- A thread's stack --- */

struct cuda_context *context_top(void)
{
    return stack.depth > 0 ? stack.at[stack.depth - 1] : NULL;
}

CUresult context_push(struct cuda_context *c)
{
    if (stack.depth == MAX_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack.at[stack.depth++] = c;
    return CUDA_SUCCESS;
}

void context_pop(void)
{
    stack.depth -= stack.depth > 0;
}

/* --- Calls --- */

/* Locked. */
static CUresult find_current(struct cuda_context **ret)
{
    *ret = context_top();
    return context_check(*ret);
}

struct cuda_context *context_current(void)
{
    return context_check(context_top()) == CUDA_SUCCESS ? context_top() : NULL;
}

CUresult context_enter(struct cuda_call *c, struct cuda_context **ret)
{
    *ret = NULL;
    context_lock();
    bool has_one = context_check(context_top()) == CUDA_SUCCESS;
    CUdevice device = has_one ? context_top()->device : 0;
    context_unlock();
    CUresult rc = has_one ? cuda_enter_device(c, device) : cuda_enter(c);
    if (rc != CUDA_SUCCESS)
        return rc;
    context_lock();
    rc = find_current(ret);
    if (rc == CUDA_SUCCESS)
        rc = capture_mode_check_call(c->id);
    if (rc == CUDA_SUCCESS)
        return rc;
    context_unlock();
    *ret = NULL;
    return rc;
}

CUresult context_leave(struct cuda_call *c, struct cuda_context *context, CUresult rc)
{
    if (context != NULL)
        context_unlock();
    return cuda_leave(c, rc);
}

/* --- Life --- */

CUresult context_begin(struct cuda_context *c, unsigned int api)
{
    c->api = api;
    c->uses = 1;
    c->arena = (struct arena){.ordinal = c->device,
                              .device = cuda_device_at(c->device),
                              .context = c,
                              .is_low = api == CONTEXT_OLD_API};
    CUresult rc = cuda_reserve(c->arena.device, CONTEXT_BYTES, 1);
    c->live = rc == CUDA_SUCCESS;
    return rc;
}

void context_add_part(struct cuda_context *context, struct context_part *part)
{
    part->next = context->parts;
    part->before = &context->parts;
    if (part->next != NULL)
        part->next->before = &part->next;
    context->parts = part;
}

void context_remove_part(struct context_part *part)
{
    *part->before = part->next;
    if (part->next != NULL)
        part->next->before = part->before;
}

static void end_parts(struct cuda_context *c)
{
    while (c->parts != NULL) {
        struct context_part *part = c->parts;
        context_remove_part(part);
        part->end(part);
    }
}

void context_end(struct cuda_context *c)
{
    end_parts(c);
    arena_free_all(&c->arena);
    c->live = false;
    cuda_give_back(c->arena.device, CONTEXT_BYTES, 1);
}

bool context_are_flags(unsigned int flags)
{
    return (flags & ~(unsigned int)CU_CTX_FLAGS_MASK) == 0 && (flags & CU_CTX_SCHED_MASK) != 3 &&
           (flags & CU_CTX_SCHED_MASK) <= 4;
}

CUresult context_new(CUdevice device, unsigned int flags, unsigned int api,
                     struct cuda_context **ret)
{
    struct cuda_context *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->device = device;
    c->flags = flags;
    CUresult rc = context_begin(c, api);
    if (rc != CUDA_SUCCESS) {
        free(c);
        return rc;
    }
    c->next = contexts;
    contexts = c;
    *ret = c;
    return CUDA_SUCCESS;
}
