/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: primary contexts. Contracts are the driver API's own; the older forms of a function differ from
 * it only where it is said. */
#include "sim/cuda_context.h"

static CUresult retain(CUdevice device, CUcontext *ret)
{
    struct cuda_context *c = context_primary(device);
    CUresult rc = c->live ? CUDA_SUCCESS : context_begin(c, CONTEXT_API);
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
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = context != NULL ? retain(device, context) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}

static CUresult release(struct cuda_context *c)
{
    if (c->retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--c->retained == 0 && c->live)
        context_end(c);
    return CUDA_SUCCESS;
}

static CUresult release_in(unsigned int call, CUdevice device)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = release(context_primary(device));
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return release_in(CALL_cuDevicePrimaryCtxRelease, device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return release_in(CALL_cuDevicePrimaryCtxRelease_v2, device);
}

/* A context that is reset stays retained as often as it was; the next Retain begins it anew. */
static void reset(struct cuda_context *c)
{
    if (!c->live)
        return;
    context_end(c);
    c->flags = 0;
}

static CUresult reset_in(unsigned int call, CUdevice device)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    if (rc == CUDA_SUCCESS)
        reset(context_primary(device));
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return reset_in(CALL_cuDevicePrimaryCtxReset, device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return reset_in(CALL_cuDevicePrimaryCtxReset_v2, device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    struct cuda_call c = {.id = CALL_cuDevicePrimaryCtxGetState};
    CUresult rc = cuda_enter_device(&c, device);
    if (rc == CUDA_SUCCESS && (flags == NULL || active == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS) {
        *flags = context_primary(device)->flags;
        *active = context_primary(device)->live;
    }
    context_unlock();
    return cuda_leave(&c, rc);
}

/* Once the flags of an active context could not be changed. */
static CUresult set_flags(unsigned int call, CUdevice device, unsigned int flags, bool when_active)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter_device(&c, device);
    if (rc == CUDA_SUCCESS && !context_are_flags(flags))
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS && !when_active && context_primary(device)->live)
        rc = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    if (rc == CUDA_SUCCESS)
        context_primary(device)->flags = flags;
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    return set_flags(CALL_cuDevicePrimaryCtxSetFlags, device, flags, /* when_active= */ false);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    return set_flags(CALL_cuDevicePrimaryCtxSetFlags_v2, device, flags, /* when_active= */ true);
}
