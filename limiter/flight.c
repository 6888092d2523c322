/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/flight.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "limiter/real.h"

/* More streams than these are not bounded. */
enum { MAX_STREAMS = 64, RING = 64, DEPTH_MIN = 2, DEPTH_FIRST = 8 };

#define IN_FLIGHT_NS 1000000

/* cuEventCreate: without times, and waited for without a busy loop. */
enum { EVENT_FLAGS = 3 };

struct flight {
    CUcontext context; /* NULL: free */
    CUstream stream;
    int card;
    unsigned int given; /* events recorded */
    unsigned int depth;
    uint64_t piece_ns; /* how long one takes, as seen lately */
    uint64_t seen_ns;  /* when one was last seen done */
    CUevent ring[RING];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct flight flights[MAX_STREAMS];

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    memset(flights, 0, sizeof(flights));
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* --- Locked --- */

static struct flight *find(CUcontext context, CUstream stream)
{
    for (unsigned int i = 0; i < MAX_STREAMS; i++) {
        if (flights[i].context == context && flights[i].stream == stream)
            return &flights[i];
    }
    return NULL;
}

static struct flight *find_or_add(int card, CUcontext context, CUstream stream)
{
    struct flight *f = find(context, stream);
    if (f != NULL)
        return f;
    for (unsigned int i = 0; i < MAX_STREAMS; i++) {
        if (flights[i].context != NULL)
            continue;
        flights[i] = (struct flight){.context = context,
                                     .stream = stream,
                                     .card = card,
                                     .depth = DEPTH_FIRST};
        return &flights[i];
    }
    return NULL;
}

/* The event to wait for; NULL: none yet. */
static CUevent record(struct flight *f)
{
    CUevent *event = &f->ring[f->given % RING];
    if (*event == NULL && also.cuEventCreate(event, EVENT_FLAGS) != CUDA_SUCCESS) {
        *event = NULL;
        return NULL;
    }
    if (also.cuEventRecord(*event, f->stream) != CUDA_SUCCESS)
        return NULL;
    f->given++;
    return f->given > f->depth ? f->ring[(f->given - 1 - f->depth) % RING] : NULL;
}

static void measure(struct flight *f, bool waited)
{
    uint64_t now = now_ns(), took = now - f->seen_ns;
    f->seen_ns = now;
    if (!waited)
        return;
    f->piece_ns = f->piece_ns != 0 ? (f->piece_ns * 3 + took) / 4 : took;
    uint64_t depth = IN_FLIGHT_NS / (f->piece_ns != 0 ? f->piece_ns : 1);
    f->depth = (unsigned int)(depth < DEPTH_MIN ? DEPTH_MIN : depth >= RING ? RING - 1 : depth);
}

/* A driver that cannot tell captures nothing. */
static bool is_captured(CUstream stream)
{
    int status = 0;
    CUresult rc = also.cuStreamIsCapturing(stream, &status);
    return rc != CUDA_ERROR_NOT_SUPPORTED && (rc != CUDA_SUCCESS || status != 0);
}

void flight_add(int card, CUcontext context, CUstream stream)
{
    if (is_captured(stream))
        return;
    (void)pthread_mutex_lock(&mu);
    struct flight *f = find_or_add(card, context, stream);
    CUevent oldest = f != NULL ? record(f) : NULL;
    (void)pthread_mutex_unlock(&mu);
    if (oldest == NULL)
        return;
    bool waited = also.cuEventQuery(oldest) != CUDA_SUCCESS;
    if (waited)
        (void)also.cuEventSynchronize(oldest);
    (void)pthread_mutex_lock(&mu);
    f = find(context, stream);
    if (f != NULL)
        measure(f, waited);
    (void)pthread_mutex_unlock(&mu);
}

static bool is_done(const struct flight *f)
{
    return also.cuCtxSetCurrent(f->context) == CUDA_SUCCESS &&
           also.cuEventQuery(f->ring[(f->given - 1) % RING]) == CUDA_SUCCESS;
}

bool flight_is_empty(int card)
{
    bool empty = true;
    (void)pthread_mutex_lock(&mu);
    for (unsigned int i = 0; i < MAX_STREAMS && empty; i++) {
        const struct flight *f = &flights[i];
        if (f->context != NULL && f->card == card && f->given != 0)
            empty = is_done(f);
    }
    (void)pthread_mutex_unlock(&mu);
    return empty;
}

void flight_end_context(CUcontext context)
{
    (void)pthread_mutex_lock(&mu);
    for (unsigned int i = 0; i < MAX_STREAMS; i++) {
        if (flights[i].context == context)
            flights[i] = (struct flight){0};
    }
    (void)pthread_mutex_unlock(&mu);
}
