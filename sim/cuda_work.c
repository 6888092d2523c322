/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_work.h"

#include "sim/cuda_capture.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_worker.h"

/* --- Streams of handles --- */

/* It stays when its thread ends, as long as the context. */
static struct stream *find_own(struct work *w)
{
    uint64_t thread = cuda_thread();
    for (struct stream *s = w->streams; s != NULL; s = s->next) {
        if (s->thread == thread)
            return s;
    }
    struct stream *s = queue_add_stream(w, 0, 0);
    if (s != NULL)
        s->thread = thread;
    return s;
}

static struct stream *find_default(struct cuda_context *current, bool own)
{
    struct work *w = queue_of(current);
    if (w == NULL)
        return NULL;
    return own ? find_own(w) : &w->legacy;
}

CUresult work_find_stream(struct cuda_context *current, CUstream stream, struct stream **ret)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
        *ret = find_default(current, stream == CU_STREAM_PER_THREAD);
        return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = handle_find(HANDLE_STREAM, stream);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult work_enter(struct cuda_call *c, CUstream stream, struct cuda_context **ret_context,
                    struct stream **ret)
{
    CUresult rc = context_enter(c, ret_context);
    return rc == CUDA_SUCCESS ? work_find_stream(*ret_context, stream, ret) : rc;
}

CUstream work_own_stream(CUstream stream)
{
    return stream != NULL ? stream : CU_STREAM_PER_THREAD;
}

/* --- Waiting --- */

static CUresult wait(struct waiter *waiter)
{
    struct work *w = waiter->work;
    (void)queue_note_loss(w);
    queue_ref(w);
    if (!waiter->is_over(waiter))
        queue_wait(waiter);
    CUresult rc = w->ended ? CUDA_ERROR_CONTEXT_IS_DESTROYED : w->error;
    queue_unref(w);
    return rc;
}

static CUresult wait_in(struct stream *s, struct waiter *waiter)
{
    queue_hold(s);
    CUresult rc = wait(waiter);
    queue_let_go(s);
    return rc;
}

static bool is_done(const struct waiter *waiter)
{
    return queue_is_done(waiter->work, waiter->stream, waiter->seq);
}

CUresult work_wait_stream(struct stream *s)
{
    struct waiter waiter = {.is_over = is_done, .work = s->work, .stream = s, .seq = s->work->seq};
    return wait_in(s, &waiter);
}

CUresult work_wait_context(struct cuda_context *context)
{
    if (context->work == NULL)
        return cuda_device_is_lost(context->arena.device) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
    struct waiter waiter = {.is_over = is_done, .work = context->work, .seq = context->work->seq};
    return wait(&waiter);
}

CUresult work_wait_for(struct work *work, bool (*is_over)(const struct waiter *), const void *about)
{
    struct waiter waiter = {.is_over = is_over, .work = work, .about = about};
    return wait(&waiter);
}

CUresult work_query(const struct stream *s)
{
    (void)queue_note_loss(s->work);
    if (s->work->error != CUDA_SUCCESS)
        return s->work->error;
    return queue_is_done(s->work, s, s->work->seq) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* --- Submitting --- */

static bool has_room(const struct waiter *waiter)
{
    return waiter->stream->count < QUEUE_MAX;
}

static CUresult wait_for_room(struct stream *s)
{
    struct waiter waiter = {.is_over = has_room, .work = s->work, .stream = s};
    return wait(&waiter);
}

static bool can_be_done_now(const struct stream *s, const struct work_item *item)
{
    return item->kind == WORK_INSTANT && queue_is_free(s) &&
           (item->is_ready == NULL || item->is_ready(item));
}

static CUresult do_now(struct stream *s, struct work_item *item)
{
    (void)queue_perform(s, item, item->since_ns);
    if (item->tells_others)
        queue_wake_others(s->work);
    queue_end_item(item);
    return s->work->error;
}

static CUresult enqueue(struct stream *s, struct work_item *item)
{
    if (s->ended)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!worker_start(s->work, item->kind))
        return CUDA_ERROR_OUT_OF_MEMORY;
    queue_add(s, item);
    worker_notice(s);
    return CUDA_SUCCESS;
}

/* The stream is held. */
static CUresult submit(struct stream *s, struct work_item *item)
{
    CUresult rc = s->work->error;
    if (rc == CUDA_SUCCESS && can_be_done_now(s, item))
        return do_now(s, item);
    if (rc == CUDA_SUCCESS && s->count >= QUEUE_MAX)
        rc = wait_for_room(s);
    if (rc == CUDA_SUCCESS)
        rc = enqueue(s, item);
    if (rc != CUDA_SUCCESS)
        queue_end_item(item);
    return rc;
}

CUresult work_submit(struct stream *s, struct work_item *item)
{
    CUresult refused = capture_check_legacy(s);
    if (refused != CUDA_SUCCESS) {
        queue_end_item(item);
        return refused;
    }
    if (s->capture != NULL)
        return capture_add(s, item);
    item->since_ns = timeslices_now();
    (void)queue_note_loss(s->work);
    queue_hold(s);
    CUresult rc = submit(s, item);
    queue_let_go(s);
    return rc;
}

static CUresult submit_next(struct stream *s, struct work_item *item)
{
    item->since_ns = timeslices_now();
    if (can_be_done_now(s, item))
        return do_now(s, item);
    CUresult rc = enqueue(s, item);
    if (rc != CUDA_SUCCESS)
        queue_end_item(item);
    return rc;
}

CUresult work_submit_all(struct stream *s, struct work_item *first)
{
    (void)queue_note_loss(s->work);
    queue_hold(s);
    CUresult rc = s->work->error;
    if (rc == CUDA_SUCCESS && s->count >= QUEUE_MAX)
        rc = wait_for_room(s);
    while (first != NULL) {
        struct work_item *item = first;
        first = item->next;
        if (rc == CUDA_SUCCESS)
            rc = submit_next(s, item);
        else
            queue_end_item(item);
    }
    queue_let_go(s);
    return rc;
}
