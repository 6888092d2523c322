/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: streams, and functions of the program in them. Contracts are the driver API's own. */
#include <stdlib.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_graph_items.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_pool.h"
#include "sim/cuda_work.h"

/* --- Streams --- */

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct cuda_call c = {.id = CALL_cuCtxGetStreamPriorityRange};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && least != NULL)
        *least = 0;
    if (rc == CUDA_SUCCESS && greatest != NULL)
        *greatest = QUEUE_PRIORITY;
    return context_leave(&c, context, rc);
}

/* A priority out of the range is the nearest one in it. */
static int nearest(int priority)
{
    if (priority > 0)
        return 0;
    return priority < QUEUE_PRIORITY ? QUEUE_PRIORITY : priority;
}

static CUresult make(struct cuda_context *context, CUstream *ret, unsigned int flags, int priority)
{
    if (ret == NULL || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct work *w = queue_of(context);
    struct stream *s = w != NULL ? queue_add_stream(w, flags, nearest(priority)) : NULL;
    if (s == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->handle = handle_new(HANDLE_STREAM, s);
    *ret = s->handle;
    if (s->handle != NULL)
        return CUDA_SUCCESS;
    queue_end_stream(s);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create(unsigned int call, CUstream *stream, unsigned int flags, int priority)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = make(context, stream, flags, priority);
    return context_leave(&c, context, rc);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return create(CALL_cuStreamCreate, stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    return create(CALL_cuStreamCreateWithPriority, stream, flags, priority);
}

/* What was submitted to it is still carried out. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
    struct cuda_call c = {.id = CALL_cuStreamDestroy_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    struct stream *s = rc == CUDA_SUCCESS ? handle_find(HANDLE_STREAM, stream) : NULL;
    if (rc == CUDA_SUCCESS && s == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS)
        queue_end_stream(s);
    return context_leave(&c, context, rc);
}

/* --- What they are --- */

static CUresult get_priority(unsigned int call, CUstream stream, int *ret)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && ret == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *ret = s->priority;
    return context_leave(&c, context, rc);
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    return get_priority(CALL_cuStreamGetPriority, stream, priority);
}

CUresult cuStreamGetPriority_ptsz(CUstream stream, int *priority)
{
    return get_priority(CALL_cuStreamGetPriority_ptsz, work_own_stream(stream), priority);
}

static CUresult get_flags(unsigned int call, CUstream stream, unsigned int *ret)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && ret == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *ret = s->flags;
    return context_leave(&c, context, rc);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    return get_flags(CALL_cuStreamGetFlags, stream, flags);
}

CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags)
{
    return get_flags(CALL_cuStreamGetFlags_ptsz, work_own_stream(stream), flags);
}

static CUresult get_context(unsigned int call, CUstream stream, CUcontext *ret)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && ret == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *ret = s->work->context;
    return context_leave(&c, context, rc);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    return get_context(CALL_cuStreamGetCtx, stream, context);
}

CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context)
{
    return get_context(CALL_cuStreamGetCtx_ptsz, work_own_stream(stream), context);
}

/* --- Waiting --- */

static CUresult synchronize(unsigned int call, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = capture_check_wait(s);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_stream(s);
    if (rc == CUDA_SUCCESS)
        pool_trim_all();
    return context_leave(&c, context, rc);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return synchronize(CALL_cuStreamSynchronize, stream);
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
    return synchronize(CALL_cuStreamSynchronize_ptsz, work_own_stream(stream));
}

static CUresult query(unsigned int call, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = capture_check_wait(s);
    if (rc == CUDA_SUCCESS)
        rc = work_query(s);
    return context_leave(&c, context, rc);
}

CUresult cuStreamQuery(CUstream stream)
{
    return query(CALL_cuStreamQuery, stream);
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
    return query(CALL_cuStreamQuery_ptsz, work_own_stream(stream));
}

/* --- Functions of the program --- */

struct host_item {
    struct work_item item;
    const struct cuda_context *context;
    CUstream stream; /* as the program named it */
    CUhostFn function;
    CUstreamCallback callback;
    void *data;
};

static CUresult error_of(const struct cuda_context *context)
{
    context_lock();
    CUresult rc = context->work != NULL ? context->work->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_unlock();
    return rc;
}

/* A callback hears of an error; a function is not called then. */
/* NOLINTNEXTLINE(readability-non-const-parameter): work_item's. */
static CUresult call(struct work_item *item, int64_t *at_ns)
{
    const struct host_item *h = (const struct host_item *)item;
    CUresult status = error_of(h->context);
    (void)at_ns;
    if (h->callback != NULL)
        h->callback(h->stream, status, h->data);
    else if (status == CUDA_SUCCESS)
        h->function(h->data);
    return CUDA_SUCCESS;
}

static struct host_item *new_host(const struct host_item *want, const struct cuda_context *context)
{
    struct host_item *h = malloc(sizeof(*h));
    if (h == NULL)
        return NULL;
    *h = *want;
    h->item = (struct work_item){.kind = WORK_HOST,
                                 .perform = call,
                                 .bytes = h->callback == NULL ? sizeof(*h) : 0,
                                 .node_type = CU_GRAPH_NODE_TYPE_HOST};
    h->context = context;
    return h;
}

CUresult items_of_function(struct cuda_context *current, const CUDA_HOST_NODE_PARAMS *params,
                           struct work_item **ret)
{
    const struct host_item want = {.function = params->fn, .data = params->userData};
    if (params->fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct host_item *h = new_host(&want, current);
    *ret = h != NULL ? &h->item : NULL;
    return h != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult submit_host(unsigned int id, const struct host_item *want)
{
    struct cuda_call c = {.id = id};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, want->stream, &context, &s);
    if (rc == CUDA_SUCCESS && want->function == NULL && want->callback == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    struct host_item *h = rc == CUDA_SUCCESS ? new_host(want, s->work->context) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = h != NULL ? work_submit(s, &h->item) : CUDA_ERROR_OUT_OF_MEMORY;
    return context_leave(&c, context, rc);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    const struct host_item h = {.stream = stream, .function = function, .data = data};
    return submit_host(CALL_cuLaunchHostFunc, &h);
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
    const struct host_item h = {.stream = work_own_stream(stream),
                                .function = function,
                                .data = data};
    return submit_host(CALL_cuLaunchHostFunc_ptsz, &h);
}

static CUresult add_callback(unsigned int id, CUstream stream, CUstreamCallback callback,
                             void *data, unsigned int flags)
{
    const struct host_item h = {.stream = stream,
                                .callback = flags == 0 ? callback : NULL,
                                .data = data};
    return submit_host(id, &h);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                             unsigned int flags)
{
    return add_callback(CALL_cuStreamAddCallback, stream, callback, data, flags);
}

CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data,
                                  unsigned int flags)
{
    return add_callback(CALL_cuStreamAddCallback_ptsz, work_own_stream(stream), callback, data,
                        flags);
}
