/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of this process, so that one can ask whether they are done, and which of them are
 * captured. A capture breaks when a thread waits for its stream, or for something that its stream is
 * part of. No event is recorded to learn whether a card is done: one in the default stream waits for
 * all others, and they for it, so that two that wait for each other would for ever.
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

void streams_add(CUcontext context, CUstream stream);
/* Before it is destroyed. False: it is not known. */
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

/* True where all work is done of the current context's default stream and of its streams that are
 * known, but for what a capture is part of. */
bool streams_are_done(CUcontext current);

/* While a capture of some thread runs, others may make only calls that cannot harm it, unless they
 * say that theirs do not (relax). Around what the limiter asks for itself in a thread of the
 * program's. */
int streams_relax(void);
void streams_tighten(int mode);
