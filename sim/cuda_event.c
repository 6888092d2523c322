/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: events. Contracts are the driver API's own. */
#include "sim/cuda_event.h"

#include <stdlib.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_mark.h"
#include "sim/cuda_pool.h"
#include "sim/cuda_work.h"

#define FLAGS                                                                                      \
    ((unsigned int)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))

struct event {
    struct context_part part;
    struct work *work; /* its context's */
    void *handle;
    unsigned int flags;
    struct mark *mark;        /* the last record; NULL: none */
    struct captured captured; /* that record, if it was in a captured stream */
};

/* --- Events --- */

static void free_event(struct event *e)
{
    handle_end(e->handle);
    mark_unref(e->mark);
    capture_drop_event(&e->captured);
    free(e);
}

static void end_event(struct context_part *part)
{
    free_event((struct event *)part);
}

static bool are_flags(unsigned int flags)
{
    bool timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    return (flags & ~FLAGS) == 0 && ((flags & CU_EVENT_INTERPROCESS) == 0 || !timed);
}

static CUresult make(struct cuda_context *context, CUevent *ret, unsigned int flags)
{
    if (ret == NULL || !are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct work *w = queue_of(context);
    struct event *e = w != NULL ? calloc(1, sizeof(*e)) : NULL;
    if (e == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *e = (struct event){.part.end = end_event, .work = w, .flags = flags};
    e->handle = handle_new(HANDLE_EVENT, e);
    if (e->handle == NULL) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context_add_part(context, &e->part);
    *ret = e->handle;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuEventCreate};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = make(context, event, flags);
    return context_leave(&c, context, rc);
}

/* Begins a call that concerns an event, of whichever context. */
static CUresult enter(struct cuda_call *c, CUevent event, struct cuda_context **context,
                      struct event **ret)
{
    CUresult rc = context_enter(c, context);
    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = handle_find(HANDLE_EVENT, event);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    struct cuda_call c = {.id = CALL_cuEventDestroy_v2};
    struct cuda_context *context = NULL;
    struct event *e = NULL;
    CUresult rc = enter(&c, event, &context, &e);
    if (rc == CUDA_SUCCESS) {
        context_remove_part(&e->part);
        free_event(e);
    }
    return context_leave(&c, context, rc);
}

/* --- In streams --- */

static CUresult record_captured(struct event *e, struct stream *s)
{
    struct captured now = {0};
    CUresult rc = capture_record(s, &now);
    if (rc != CUDA_SUCCESS)
        return rc;
    mark_unref(e->mark);
    capture_drop_event(&e->captured);
    e->mark = NULL;
    e->captured = now;
    return CUDA_SUCCESS;
}

/* Whoever waits for the event from here on waits for this item. */
static struct work_item *new_record(struct event *e)
{
    struct mark *m = mark_new();
    struct work_item *item = m != NULL ? mark_record_item(m) : NULL;
    if (item == NULL) {
        mark_unref(m);
        return NULL;
    }
    mark_unref(e->mark);
    capture_drop_event(&e->captured);
    e->mark = m;
    return item;
}

/* A captured stream does it when the graph is launched. */
static CUresult capture_external(struct stream *s, int type, const struct event *e)
{
    struct node_work *work = node_work_new(s->work->context, /* item= */ NULL);
    if (work == NULL)
        return capture_refuse_with(s, CUDA_ERROR_OUT_OF_MEMORY);
    work->event = e->handle;
    CUresult rc = capture_add_node(s, type, work, NULL);
    node_work_unref(work);
    return rc;
}

static CUresult record(struct event *e, struct stream *s, bool is_external)
{
    if (s->work != e->work)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture != NULL)
        return is_external ? capture_external(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, e)
                           : record_captured(e, s);
    CUresult rc = capture_check_legacy(s);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (is_external)
        return CUDA_ERROR_INVALID_VALUE;
    struct work_item *item = new_record(e);
    return item != NULL ? work_submit(s, item) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult record_in(unsigned int call, CUevent event, CUstream stream, unsigned int flags)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct event *e = NULL;
    struct stream *s = NULL;
    CUresult rc = enter(&c, event, &context, &e);
    if (rc == CUDA_SUCCESS)
        rc = work_find_stream(context, stream, &s);
    if (rc == CUDA_SUCCESS && flags > CU_EVENT_RECORD_EXTERNAL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = record(e, s, flags != 0);
    return context_leave(&c, context, rc);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record_in(CALL_cuEventRecord, event, stream, 0);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return record_in(CALL_cuEventRecord_ptsz, event, work_own_stream(stream), 0);
}

/* The one flag that there is, CU_EVENT_RECORD_EXTERNAL, is for captured streams. */
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    return record_in(CALL_cuEventRecordWithFlags, event, stream, flags);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
    return record_in(CALL_cuEventRecordWithFlags_ptsz, event, work_own_stream(stream), flags);
}

/* An event that was never recorded is nothing to wait for. A captured stream waits for events of its
 * capture alone, or by a node. */
static CUresult wait_for_record(struct stream *s, const struct event *e)
{
    if (e->captured.capture != NULL)
        return capture_join(s, &e->captured);
    if (e->mark == NULL)
        return CUDA_SUCCESS;
    if (s->capture != NULL)
        return capture_refuse_with(s, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    struct work_item *item = mark_wait_item(e->mark);
    return item != NULL ? work_submit(s, item) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult wait_in(unsigned int call, CUstream stream, CUevent event, unsigned int flags)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct event *e = NULL;
    struct stream *s = NULL;
    CUresult rc = enter(&c, event, &context, &e);
    if (rc == CUDA_SUCCESS)
        rc = work_find_stream(context, stream, &s);
    bool is_external = flags == CU_EVENT_WAIT_EXTERNAL;
    if (rc == CUDA_SUCCESS &&
        (flags > CU_EVENT_WAIT_EXTERNAL || (is_external && s->capture == NULL)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && is_external)
        rc = capture_external(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, e);
    else if (rc == CUDA_SUCCESS)
        rc = wait_for_record(s, e);
    return context_leave(&c, context, rc);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    return wait_in(CALL_cuStreamWaitEvent, stream, event, flags);
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
    return wait_in(CALL_cuStreamWaitEvent_ptsz, work_own_stream(stream), event, flags);
}

/* --- In graphs --- */

CUresult event_check(CUevent handle, const struct stream *s, bool records)
{
    const struct event *e = handle_find(HANDLE_EVENT, handle);
    if (e == NULL || (records && e->work != s->work))
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

struct work_item *event_record_item(CUevent handle)
{
    return new_record(handle_find(HANDLE_EVENT, handle));
}

bool event_wait_item(CUevent handle, struct work_item **ret)
{
    const struct event *e = handle_find(HANDLE_EVENT, handle);
    *ret = e->mark != NULL ? mark_wait_item(e->mark) : NULL;
    return e->mark == NULL || *ret != NULL;
}

/* --- Asking --- */

/* Whoever asks when a captured event was invalidates its capture. */
static CUresult check_recorded(const struct event *e)
{
    if (e->captured.capture == NULL)
        return CUDA_SUCCESS;
    (void)capture_invalidate(e->captured.capture, CUDA_SUCCESS);
    return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult check_waiting(const struct event *e)
{
    CUresult rc = check_recorded(e);
    return rc == CUDA_SUCCESS ? capture_mode_check() : rc;
}

CUresult cuEventQuery(CUevent event)
{
    struct cuda_call c = {.id = CALL_cuEventQuery};
    struct cuda_context *context = NULL;
    struct event *e = NULL;
    CUresult rc = enter(&c, event, &context, &e);
    if (rc == CUDA_SUCCESS)
        rc = check_waiting(e);
    if (rc == CUDA_SUCCESS)
        rc = e->work->error;
    if (rc == CUDA_SUCCESS && e->mark != NULL && !e->mark->done)
        rc = CUDA_ERROR_NOT_READY;
    return context_leave(&c, context, rc);
}

static bool is_done(const struct waiter *waiter)
{
    const struct mark *m = waiter->about;
    return m->done;
}

static CUresult wait_for(const struct event *e)
{
    struct mark *m = e->mark;
    if (m == NULL)
        return e->work->error;
    m->refs++;
    CUresult rc = work_wait_for(e->work, is_done, m);
    mark_unref(m);
    return rc;
}

CUresult cuEventSynchronize(CUevent event)
{
    struct cuda_call c = {.id = CALL_cuEventSynchronize};
    struct cuda_context *context = NULL;
    struct event *e = NULL;
    CUresult rc = enter(&c, event, &context, &e);
    if (rc == CUDA_SUCCESS)
        rc = check_waiting(e);
    if (rc == CUDA_SUCCESS)
        rc = wait_for(e);
    if (rc == CUDA_SUCCESS)
        pool_trim_all();
    return context_leave(&c, context, rc);
}

static CUresult difference(const struct event *start, const struct event *end, float *ret)
{
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || start->work != end->work)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->mark == NULL || end->mark == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start->mark->done || !end->mark->done)
        return CUDA_ERROR_NOT_READY;
    *ret = (float)((double)(end->mark->at_ns - start->mark->at_ns) / 1e6);
    return CUDA_SUCCESS;
}

static CUresult elapsed(unsigned int call, float *ms, CUevent start, CUevent end, bool says_errors)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct event *from = NULL;
    CUresult rc = enter(&c, start, &context, &from);
    const struct event *to = rc == CUDA_SUCCESS ? handle_find(HANDLE_EVENT, end) : NULL;
    if (rc == CUDA_SUCCESS && to == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS && ms == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check_recorded(from);
    if (rc == CUDA_SUCCESS)
        rc = check_recorded(to);
    if (rc == CUDA_SUCCESS && says_errors)
        rc = from->work->error;
    if (rc == CUDA_SUCCESS)
        rc = difference(from, to, ms);
    return context_leave(&c, context, rc);
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return elapsed(CALL_cuEventElapsedTime, ms, start, end, /* says_errors= */ true);
}

/* Errors of earlier work are for others to tell. */
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return elapsed(CALL_cuEventElapsedTime_v2, ms, start, end, /* says_errors= */ false);
}
