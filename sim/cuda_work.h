/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work in streams, as the functions of the API submit it and wait for it: between context_enter and
 * context_leave. Whatever waits here leaves the contexts unlocked meanwhile, so what was found
 * before may be gone afterwards, even the context.
 */
#pragma once

#include "sim/cuda_queue.h"

/*
 * The stream of a handle; NULL and CU_STREAM_LEGACY are the current context's legacy default stream,
 * CU_STREAM_PER_THREAD is this thread's. INVALID_HANDLE, or OUT_OF_MEMORY. A stream of a handle may
 * be another context's.
 */
CUresult work_find_stream(struct cuda_context *current, CUstream stream, struct stream **ret);

/* Begins a call on a stream: context_enter, and finds it. End it with context_leave. */
CUresult work_enter(struct cuda_call *c, CUstream stream, struct cuda_context **ret_context,
                    struct stream **ret);

/* What the functions whose names end in _ptsz or _ptds take for no stream. */
CUstream work_own_stream(CUstream stream);

/*
 * Submits an item, which is the callee's from now on whatever it returns. One that takes no time,
 * and has nothing to wait for, is done at once, in this thread. Blocks while the stream is full. An
 * error of earlier work is returned instead, and of this one if it was done. Of a captured stream it
 * becomes a node (cuda_capture.h).
 */
CUresult work_submit(struct stream *s, struct work_item *item);

/* The same of several items, one behind the other without any in between, of a stream that is not captured.
 * They may be more than a stream has room for. */
CUresult work_submit_all(struct stream *s, struct work_item *first);

/* Blocks until all is done that was submitted so far: to a stream, or to the context. */
CUresult work_wait_stream(struct stream *s);
CUresult work_wait_context(struct cuda_context *context);

/* SUCCESS, or NOT_READY while something of a stream is not done. */
CUresult work_query(const struct stream *s);

/* Blocks until a condition holds, or the context of `work` has ended (CONTEXT_IS_DESTROYED). */
CUresult work_wait_for(struct work *work, bool (*is_over)(const struct waiter *),
                       const void *about);
