/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: contexts. Contracts are the driver API's own. */
#include "sim/cuda_context.h"

#include <stdlib.h>

#include "sim/cuda_room.h"

#define MAX_DEPTH   64
#define API_VERSION 3020 /* what contexts of cuCtxCreate_v2 and later say */

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

static void lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mu);
}

void context_lock(void)
{
    lock();
}

void context_unlock(void)
{
    unlock();
}

void context_wait(pthread_cond_t *cond)
{
    (void)pthread_cond_wait(cond, &mu);
}

static bool is_primary(const struct cuda_context *c)
{
    return c >= primaries && c < primaries + HW_MAX_GPUS;
}

/* A context that is or was. Locked. */
static bool is_known(const struct cuda_context *c)
{
    if (is_primary(c))
        return true;
    for (const struct cuda_context *i = contexts; i != NULL; i = i->next) {
        if (i == c)
            return true;
    }
    return false;
}

static CUresult check(const struct cuda_context *c)
{
    if (c == NULL || !is_known(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    return c->live ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static struct cuda_context *top(void)
{
    return stack.depth > 0 ? stack.at[stack.depth - 1] : NULL;
}

/* Locked. */
static CUresult find_current(struct cuda_context **ret)
{
    *ret = top();
    return check(*ret);
}

struct cuda_context *context_current(void)
{
    return check(top()) == CUDA_SUCCESS ? top() : NULL;
}

CUresult context_enter(struct cuda_call *c, struct cuda_context **ret)
{
    *ret = NULL;
    lock();
    bool has_one = check(top()) == CUDA_SUCCESS;
    CUdevice device = has_one ? top()->device : 0;
    unlock();
    CUresult rc = has_one ? cuda_enter_device(c, device) : cuda_enter(c);
    if (rc != CUDA_SUCCESS)
        return rc;
    lock();
    rc = find_current(ret);
    if (rc == CUDA_SUCCESS)
        return rc;
    unlock();
    *ret = NULL;
    return rc;
}

CUresult context_leave(struct cuda_call *c, struct cuda_context *context, CUresult rc)
{
    if (context != NULL)
        unlock();
    return cuda_leave(c, rc);
}

/* Locked. */
static CUresult begin(struct cuda_context *c)
{
    c->arena =
        (struct arena){.ordinal = c->device, .device = cuda_device_at(c->device), .context = c};
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

static void end(struct cuda_context *c)
{
    end_parts(c);
    arena_free_all(&c->arena);
    c->live = false;
    cuda_give_back(c->arena.device, CONTEXT_BYTES, 1);
}

static bool are_flags(unsigned int flags)
{
    return (flags & ~(unsigned int)CU_CTX_FLAGS_MASK) == 0 && (flags & CU_CTX_SCHED_MASK) != 3 &&
           (flags & CU_CTX_SCHED_MASK) <= 4;
}

/* --- Primary contexts --- */

static CUresult retain(CUdevice device, CUcontext *ret)
{
    struct cuda_context *c = &primaries[device];
    c->device = device;
    CUresult rc = c->live ? CUDA_SUCCESS : begin(c);
    if (rc != CUDA_SUCCESS)
        return rc;
    c->retained++;
    *ret = c;
    return rc;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDevicePrimaryCtxRetain};
    CUresult rc = cuda_enter_device(&c, device);
    lock();
    if (rc == CUDA_SUCCESS)
        rc = context != NULL ? retain(device, context) : CUDA_ERROR_INVALID_VALUE;
    unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDevicePrimaryCtxRelease_v2};
    CUresult rc = cuda_enter_device(&c, device);
    lock();
    if (rc == CUDA_SUCCESS && primaries[device].retained == 0)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    if (rc == CUDA_SUCCESS && --primaries[device].retained == 0 && primaries[device].live)
        end(&primaries[device]);
    unlock();
    return cuda_leave(&c, rc);
}

/* A context that is reset stays retained as often as it was; the next Retain begins it anew. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDevicePrimaryCtxReset_v2};
    CUresult rc = cuda_enter_device(&c, device);
    lock();
    if (rc == CUDA_SUCCESS && primaries[device].live) {
        end(&primaries[device]);
        primaries[device].flags = 0;
    }
    unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    struct cuda_call c = {.id = CALL_cuDevicePrimaryCtxGetState};
    CUresult rc = cuda_enter_device(&c, device);
    if (rc == CUDA_SUCCESS && (flags == NULL || active == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    lock();
    if (rc == CUDA_SUCCESS) {
        *flags = primaries[device].flags;
        *active = primaries[device].live;
    }
    unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuDevicePrimaryCtxSetFlags_v2};
    CUresult rc = cuda_enter_device(&c, device);
    if (rc == CUDA_SUCCESS && !are_flags(flags))
        rc = CUDA_ERROR_INVALID_VALUE;
    lock();
    if (rc == CUDA_SUCCESS)
        primaries[device].flags = flags;
    unlock();
    return cuda_leave(&c, rc);
}

/* --- Contexts of their own --- */

static CUresult push(struct cuda_context *c)
{
    if (stack.depth == MAX_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack.at[stack.depth++] = c;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *ret, unsigned int flags, CUdevice device)
{
    if (ret == NULL || !are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct cuda_context *c = calloc(1, sizeof(*c));
    if (c == NULL || stack.depth == MAX_DEPTH) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->device = device;
    c->flags = flags;
    CUresult rc = begin(c);
    if (rc != CUDA_SUCCESS) {
        free(c);
        return rc;
    }
    c->next = contexts;
    contexts = c;
    *ret = c;
    return push(c);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuCtxCreate_v2};
    CUresult rc = cuda_enter_device(&c, device);
    lock();
    if (rc == CUDA_SUCCESS)
        rc = create(context, flags, device);
    unlock();
    return cuda_leave(&c, rc);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxDestroy_v2};
    CUresult rc = cuda_enter(&c);
    lock();
    if (rc == CUDA_SUCCESS)
        rc = check(context);
    if (rc == CUDA_SUCCESS && is_primary(context))
        rc = CUDA_ERROR_INVALID_CONTEXT;
    if (rc == CUDA_SUCCESS) {
        end(context);
        if (top() == context)
            stack.depth--;
    }
    unlock();
    return cuda_leave(&c, rc);
}

/* --- A thread's stack --- */

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxPushCurrent_v2};
    CUresult rc = cuda_enter(&c);
    lock();
    if (rc == CUDA_SUCCESS)
        rc = check(context);
    if (rc == CUDA_SUCCESS)
        rc = push(context);
    unlock();
    return cuda_leave(&c, rc);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    struct cuda_call c = {.id = CALL_cuCtxPopCurrent_v2};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && top() == NULL)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    if (rc == CUDA_SUCCESS) {
        if (context != NULL)
            *context = top();
        stack.depth--;
    }
    return cuda_leave(&c, rc);
}

/* Replaces the top of the stack; NULL takes it off. */
CUresult cuCtxSetCurrent(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxSetCurrent};
    CUresult rc = cuda_enter(&c);
    lock();
    if (rc == CUDA_SUCCESS && context != NULL)
        rc = check(context);
    unlock();
    if (rc == CUDA_SUCCESS) {
        stack.depth -= stack.depth > 0;
        if (context != NULL)
            rc = push(context);
    }
    return cuda_leave(&c, rc);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    struct cuda_call c = {.id = CALL_cuCtxGetCurrent};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && context == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *context = top();
    return cuda_leave(&c, rc);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    struct cuda_call c = {.id = CALL_cuCtxGetDevice};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && device == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *device = context->device;
    return context_leave(&c, context, rc);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    struct cuda_call c = {.id = CALL_cuCtxGetFlags};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && flags == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = context->flags;
    return context_leave(&c, context, rc);
}

/* NULL: the current one. */
CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    struct cuda_call c = {.id = CALL_cuCtxGetApiVersion};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && version == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    lock();
    if (rc == CUDA_SUCCESS)
        rc = check(context != NULL ? context : top());
    unlock();
    if (rc == CUDA_SUCCESS)
        *version = API_VERSION;
    return cuda_leave(&c, rc);
}
