/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/flight.h"

#include <pthread.h>
#include <string.h>

#include "limiter/live_contexts.h"
#include "limiter/mono.h"
#include "limiter/raw.h"
#include "limiter/real.h"
#include "limiter/streams.h"

/* More streams than these are not bounded. */
enum { MAX_FLIGHTS = 256, RING = 64, DEPTH_MIN = 2, DEPTH_FIRST = 8 };

#define IN_FLIGHT_NS MONO_MS
#define GIVE_UP_NS   (50 * MONO_MS)

/* cuEventCreate: without times. */
enum { EVENT_FLAGS = 2 };

struct flight {
    CUcontext context; /* NULL: free */
    struct stream_key key;
    int card;
    unsigned int given; /* events recorded */
    unsigned int done;  /* of these, as seen last */
    unsigned int depth;
    uint64_t piece_ns; /* how long one takes, as seen lately */
    uint64_t seen_ns;  /* when one was last seen done */
    CUevent stuck;     /* was waited for too long; NULL: none */
    CUevent ring[RING];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct flight flights[MAX_FLIGHTS];
static unsigned int reach;

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    memset(flights, 0, sizeof(flights));
    reach = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static void lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mu);
}

/* An error of the card's ends its work, too. */
static bool is_done(CUevent event)
{
    return also.cuEventQuery(event) != CUDA_ERROR_NOT_READY;
}

/* --- Locked --- */

static struct flight *find(CUcontext context, struct stream_key key)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (flights[i].context == context && stream_key_is(flights[i].key, key))
            return &flights[i];
    }
    return NULL;
}

static bool is_past(struct flight *f)
{
    if (f->done != f->given && is_done(f->ring[(f->given - 1) % RING]))
        f->done = f->given;
    return f->done == f->given;
}

/* A free one; else one of the same context, whose events are of use, that has nothing in flight. */
static struct flight *find_room(CUcontext context)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (flights[i].context == NULL)
            return &flights[i];
    }
    if (reach < MAX_FLIGHTS)
        return &flights[reach++];
    for (unsigned int i = 0; i < MAX_FLIGHTS; i++) {
        if (flights[i].context == context && is_past(&flights[i]))
            return &flights[i];
    }
    return NULL;
}

static struct flight *find_or_add(int card, CUcontext context, struct stream_key key)
{
    struct flight *f = find(context, key);
    if (f != NULL)
        return f;
    f = find_room(context);
    if (f == NULL)
        return NULL;
    f->context = context;
    f->key = key;
    f->card = card;
    f->given = f->done = 0;
    f->depth = DEPTH_FIRST;
    f->piece_ns = f->seen_ns = 0;
    f->stuck = NULL;
    return f;
}

static bool record(struct flight *f)
{
    CUevent *event = &f->ring[f->given % RING];
    if (*event == NULL && also.cuEventCreate(event, EVENT_FLAGS) != CUDA_SUCCESS)
        *event = NULL;
    if (*event == NULL || also.cuEventRecord(*event, f->key.stream) != CUDA_SUCCESS)
        return false;
    f->given++;
    return true;
}

/* NULL: nothing to wait for, or it is what one has waited for already. */
static CUevent oldest_of(struct flight *f)
{
    if (f->given <= f->depth)
        return NULL;
    if (f->stuck != NULL && !is_done(f->stuck))
        return NULL;
    f->stuck = NULL;
    return f->ring[(f->given - 1 - f->depth) % RING];
}

static void measure(struct flight *f, bool waited)
{
    uint64_t now = mono_ns(), took = now - f->seen_ns;
    bool is_first = f->seen_ns == 0;
    f->seen_ns = now;
    if (!waited || is_first)
        return;
    f->piece_ns = f->piece_ns != 0 ? (f->piece_ns * 3 + took) / 4 : took;
    uint64_t depth = IN_FLIGHT_NS / (f->piece_ns != 0 ? f->piece_ns : 1);
    f->depth = (unsigned int)(depth < DEPTH_MIN ? DEPTH_MIN : depth >= RING ? RING - 1 : depth);
}

/* --- For who gives work --- */

CUevent flight_add(int card, CUcontext context, CUstream stream)
{
    int mode = streams_relax();
    lock();
    struct flight *f = find_or_add(card, context, stream_key(stream));
    CUevent oldest = f != NULL && record(f) ? oldest_of(f) : NULL;
    unlock();
    streams_tighten(mode);
    return oldest;
}

static void note_wait(CUcontext context, struct stream_key key, bool waited, CUevent stuck)
{
    lock();
    struct flight *f = find(context, key);
    if (f != NULL) {
        f->stuck = stuck;
        measure(f, waited && stuck == NULL);
    }
    unlock();
}

void flight_wait(CUcontext context, CUstream stream, CUevent oldest, bool (*goes_on)(int card),
                 int card)
{
    int mode = streams_relax();
    uint64_t began = mono_ns(), look = RAW_LOOK_NS;
    bool done = is_done(oldest), waited = !done;
    while (!done && goes_on(card) && mono_ns() - began < GIVE_UP_NS) {
        raw_look(&look);
        done = is_done(oldest);
    }
    bool gave_up = !done && goes_on(card);
    note_wait(context, stream_key(stream), waited && done, gave_up ? oldest : NULL);
    streams_tighten(mode);
}

/* --- For who answers the agent --- */

static bool is_context_done(CUcontext context, void *arg)
{
    (void)arg;
    return also.cuCtxSetCurrent(context) != CUDA_SUCCESS || streams_are_done(context);
}

/* The streams are asked, and who has given the last piece in a stream of its own thread's. */
static bool is_empty(int card)
{
    if (!live_contexts_all(card, is_context_done, /* arg= */ NULL))
        return false;
    for (unsigned int i = 0; i < reach; i++) {
        struct flight *f = &flights[i];
        if (f->context != NULL && f->card == card && f->key.tid != 0 &&
            also.cuCtxSetCurrent(f->context) == CUDA_SUCCESS && !is_past(f))
            return false;
    }
    return true;
}

bool flight_is_empty(int card)
{
    lock();
    bool empty = is_empty(card);
    (void)also.cuCtxSetCurrent(NULL);
    unlock();
    return empty;
}

void flight_end_context(CUcontext context)
{
    lock();
    for (unsigned int i = 0; i < reach; i++) {
        if (flights[i].context == context)
            flights[i] = (struct flight){0};
    }
    unlock();
}
