/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams that one has to know of to wait for all work of a context, without waiting for the
 * context itself: those that do not wait for the default stream, and those that are captured. A
 * capture breaks when a thread waits for its stream, or for something that its stream is part of.
 *
 * Any thread may call anything.
 */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

/* The default stream of each thread, as a handle. */
#define STREAM_PER_THREAD ((CUstream)(uintptr_t)2)
/* What a stream is in those forms of functions that have one for each thread (_ptsz, _ptds). */
static inline CUstream stream_of_thread(CUstream stream)
{
    return stream != NULL ? stream : STREAM_PER_THREAD;
}

/* A stream among those of all threads: that of STREAM_PER_THREAD is its thread's. */
struct stream_key {
    CUstream stream;
    int tid; /* of STREAM_PER_THREAD, else 0 */
};
struct stream_key stream_key(CUstream stream);
static inline bool stream_key_is(struct stream_key a, struct stream_key b)
{
    return a.stream == b.stream && a.tid == b.tid;
}

/* One that does not wait for the default stream. */
void streams_add(CUcontext context, CUstream stream);
/* Before it is destroyed. False: it was none of those. */
bool streams_remove(CUstream stream, CUcontext *ret_context);
/* All of a context, before it ends. */
void streams_end_context(CUcontext context);

/* Before a capture begins; after it has ended. False: it runs already, or there are too many. */
bool streams_begin_capture(CUstream stream);
void streams_end_capture(CUstream stream);

/* What is given to this stream is recorded, and runs later. */
bool streams_is_captured(CUstream stream);
/* Some stream of this process is captured. */
bool streams_any_captured(void);

/* Calls fn for the default stream of a context (NULL) and for each that does not wait for it, but not
 * for what a capture is part of: meanwhile none of them is destroyed and no capture begins. fn may
 * not come back here. */
void streams_each(CUcontext context, void (*fn)(CUstream stream, void *arg), void *arg);

/* While a capture of some thread runs, others may make only calls that cannot harm it, unless they
 * say that theirs do not (relax). Around what the limiter asks for itself in a thread of the
 * program's. */
int streams_relax(void);
void streams_tighten(int mode);
