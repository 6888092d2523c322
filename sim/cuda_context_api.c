/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: contexts of their own, and each thread's stack of them. Contracts are the driver API's own. */
#include "sim/cuda_capture.h"
#include "sim/cuda_pool.h"
#include "sim/cuda_work.h"

/* --- Creating --- */

static CUresult create(CUcontext *ret, unsigned int flags, CUdevice device, unsigned int api)
{
    struct cuda_context *made = NULL;
    if (ret == NULL || !context_are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = context_new(device, flags, api, &made);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = context_push(made);
    if (rc == CUDA_SUCCESS)
        *ret = made;
    else
        context_end(made);
    return rc;
}

/* `wrong`: what there is against what else was asked for. */
static CUresult create_in(unsigned int call, CUcontext *context, unsigned int flags,
                          CUdevice device, unsigned int api, CUresult wrong)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter_device(&c, device);
    if (rc == CUDA_SUCCESS)
        rc = wrong;
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = create(context, flags, device, api);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    return create_in(CALL_cuCtxCreate, context, flags, device, CONTEXT_OLD_API, CUDA_SUCCESS);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    return create_in(CALL_cuCtxCreate_v2, context, flags, device, CONTEXT_API, CUDA_SUCCESS);
}

/* A part of a card's processors is had under MPS alone, which is not here. */
static CUresult check_affinity(const CUexecAffinityParam *params, int count)
{
    if (count < 0 || (count > 0 && params == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return count > 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_SUCCESS;
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count,
                        unsigned int flags, CUdevice device)
{
    return create_in(CALL_cuCtxCreate_v3, context, flags, device, CONTEXT_API,
                     check_affinity(params, count));
}

/* Contexts in graphics are not supported either. */
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
                        CUdevice device)
{
    CUresult wrong = CUDA_SUCCESS;
    if (params != NULL)
        wrong = check_affinity(params->execAffinityParams, params->numExecAffinityParams);
    if (params != NULL && params->cigParams != NULL)
        wrong = CUDA_ERROR_NOT_SUPPORTED;
    return create_in(CALL_cuCtxCreate_v4, context, flags, device, CONTEXT_API, wrong);
}

/* --- Ending --- */

static void end(struct cuda_context *c)
{
    context_end(c);
    if (context_top() == c)
        context_pop();
}

static CUresult check_own(const struct cuda_context *c)
{
    CUresult rc = context_check(c);
    return rc == CUDA_SUCCESS && context_is_primary(c) ? CUDA_ERROR_INVALID_CONTEXT : rc;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxDestroy_v2};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = check_own(context);
    if (rc == CUDA_SUCCESS)
        end(context);
    context_unlock();
    return cuda_leave(&c, rc);
}

/* One that is attached more than once stays. */
CUresult cuCtxDestroy(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxDestroy};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = check_own(context);
    if (rc == CUDA_SUCCESS && context->uses != 1)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    if (rc == CUDA_SUCCESS)
        end(context);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuCtxAttach};
    struct cuda_context *current = NULL;
    CUresult rc = context_enter(&c, &current);
    if (rc == CUDA_SUCCESS && (context == NULL || flags != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        current->uses++;
        *context = current;
    }
    return context_leave(&c, current, rc);
}

/* Only of the current one, which ends with its last use. */
CUresult cuCtxDetach(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxDetach};
    struct cuda_context *current = NULL;
    CUresult rc = context_enter(&c, &current);
    if (rc == CUDA_SUCCESS && (context != current || context_is_primary(current)))
        rc = CUDA_ERROR_INVALID_CONTEXT;
    if (rc == CUDA_SUCCESS && --current->uses == 0)
        end(current);
    return context_leave(&c, current, rc);
}

/* --- A thread's stack --- */

static CUresult push_in(unsigned int call, CUcontext context)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = context_check(context);
    if (rc == CUDA_SUCCESS)
        rc = context_push(context);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    return push_in(CALL_cuCtxPushCurrent, context);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    return push_in(CALL_cuCtxPushCurrent_v2, context);
}

static CUresult pop_in(unsigned int call, CUcontext *context)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && context_top() == NULL)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    if (rc == CUDA_SUCCESS) {
        if (context != NULL)
            *context = context_top();
        context_pop();
    }
    return cuda_leave(&c, rc);
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    return pop_in(CALL_cuCtxPopCurrent, context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    return pop_in(CALL_cuCtxPopCurrent_v2, context);
}

/* Replaces the top of the stack; NULL takes it off. */
CUresult cuCtxSetCurrent(CUcontext context)
{
    struct cuda_call c = {.id = CALL_cuCtxSetCurrent};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS && context != NULL)
        rc = context_check(context);
    context_unlock();
    if (rc == CUDA_SUCCESS) {
        context_pop();
        if (context != NULL)
            rc = context_push(context);
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
        *context = context_top();
    return cuda_leave(&c, rc);
}

/* --- Asking, and waiting --- */

/* Begins a call on a context; NULL is the current one. End it with context_leave. */
static CUresult enter_context(struct cuda_call *c, CUcontext context, struct cuda_context **ret)
{
    if (context == NULL)
        return context_enter(c, ret);
    CUresult rc = cuda_enter(c);
    *ret = NULL;
    if (rc != CUDA_SUCCESS)
        return rc;
    context_lock();
    *ret = context;
    return context_check(context);
}

static CUresult get_device(unsigned int call, CUdevice *device, CUcontext context)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *found = NULL;
    CUresult rc = enter_context(&c, context, &found);
    if (rc == CUDA_SUCCESS && device == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *device = found->device;
    return context_leave(&c, found, rc);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return get_device(CALL_cuCtxGetDevice, device, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    return get_device(CALL_cuCtxGetDevice_v2, device, context);
}

static CUresult synchronize(unsigned int call, CUcontext context)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *found = NULL;
    CUresult rc = enter_context(&c, context, &found);
    if (rc == CUDA_SUCCESS)
        rc = capture_check_context(found);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_context(found);
    if (rc == CUDA_SUCCESS)
        pool_trim_all();
    return context_leave(&c, found, rc);
}

CUresult cuCtxSynchronize(void)
{
    return synchronize(CALL_cuCtxSynchronize, NULL);
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    return synchronize(CALL_cuCtxSynchronize_v2, context);
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

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    struct cuda_call c = {.id = CALL_cuCtxGetApiVersion};
    struct cuda_context *found = NULL;
    CUresult rc = enter_context(&c, context, &found);
    if (rc == CUDA_SUCCESS && version == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *version = found->api;
    return context_leave(&c, found, rc);
}
