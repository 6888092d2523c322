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
enum { MAX_FLIGHTS = 256, RING = 64, DEPTH_MIN = 1, DEPTH_FIRST = 2 };

#define IN_FLIGHT_NS (3 * MONO_MS / 2)
#define GIVE_UP_NS   (50 * MONO_MS)
#define PAUSE_MAX_NS (20 * MONO_MS)

/* cuEventCreate: without times. */
enum { EVENT_FLAGS = 2 };

struct flight {
    CUcontext context; /* NULL: free */
    struct stream_key key;
    int card;
    unsigned int given; /* events recorded */
    unsigned int done;  /* of these, as seen last */
    unsigned int depth;
    uint64_t piece_ns;  /* how long one takes, as seen lately */
    uint64_t least_ns;  /* ... and the shortest of the last ones */
    uint64_t paused_ns; /* after the last wait */
    /* When the card had done a piece, and which; 0: not known, or it had nothing to do since. */
    uint64_t seen_ns;
    unsigned int seen;
    CUevent stuck; /* was waited for too long; NULL: none */
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
    f->piece_ns = f->least_ns = f->paused_ns = f->seen_ns = 0;
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

/* Nothing to wait for where it is what one has waited for already. */
static struct flight_bound bound_of(struct flight *f)
{
    if (f->given <= f->depth || (f->stuck != NULL && !is_done(f->stuck)))
        return (struct flight_bound){0};
    f->stuck = NULL;
    unsigned int oldest = f->given - 1 - f->depth;
    return (struct flight_bound){.oldest = f->ring[oldest % RING],
                                 .before = f->ring[(f->given - 2) % RING],
                                 .number = oldest};
}

/* It was waited for, so that the card has done it just now. */
static void measure(struct flight *f, unsigned int number)
{
    uint64_t now = mono_ns(), since = f->seen_ns;
    unsigned int n = number - f->seen;
    f->seen_ns = now;
    f->seen = number;
    if (since == 0 || n == 0 || n > RING)
        return;
    uint64_t took = (now - since) / n;
    uint64_t least = f->least_ns + f->least_ns / 8;
    f->piece_ns = f->piece_ns != 0 ? (f->piece_ns * 3 + took) / 4 : took;
    f->least_ns = least != 0 && least < took ? least : took;
    uint64_t depth = IN_FLIGHT_NS / (f->piece_ns != 0 ? f->piece_ns : 1);
    f->depth = (unsigned int)(depth < DEPTH_MIN ? DEPTH_MIN : depth >= RING ? RING - 1 : depth);
}

/* --- For who gives work --- */

struct flight_bound flight_add(int card, CUcontext context, CUstream stream)
{
    int mode = streams_relax();
    lock();
    struct flight *f = find_or_add(card, context, stream_key(stream));
    struct flight_bound b = {0};
    if (f != NULL && record(f))
        b = bound_of(f);
    unlock();
    streams_tighten(mode);
    return b;
}

enum wait_end { WAIT_WAS_DONE, WAIT_DONE, WAIT_STUCK, WAIT_STOPPED };

static enum wait_end wait_for(CUevent event, bool (*goes_on)(int card), int card)
{
    uint64_t began = mono_ns(), look = RAW_LOOK_NS;
    if (is_done(event))
        return WAIT_WAS_DONE;
    while (goes_on(card)) {
        if (mono_ns() - began >= GIVE_UP_NS)
            return WAIT_STUCK;
        raw_look(&look);
        if (is_done(event))
            return WAIT_DONE;
    }
    return WAIT_STOPPED;
}

/* With long pieces the card has just begun one, and none has to wait behind it yet: the program is
 * ahead by its wait and its last pause. Whoever wants the card meanwhile waits for one piece, not
 * two. The piece that it has begun may be as short as the shortest. */
static uint64_t pause_of(const struct flight *f, uint64_t waited)
{
    uint64_t ahead = waited + f->paused_ns;
    uint64_t part = (ahead < f->least_ns ? ahead : f->least_ns) * 3 / 4;
    if (f->depth > DEPTH_MIN)
        return 0;
    return part < PAUSE_MAX_NS ? part : PAUSE_MAX_NS;
}

/* Returns how long the program is to pause. */
static uint64_t note_end(struct flight *f, const struct flight_bound *b, enum wait_end end,
                         uint64_t waited)
{
    f->stuck = end == WAIT_STUCK ? b->oldest : NULL;
    if (end == WAIT_DONE)
        measure(f, b->number);
    else if (end != WAIT_WAS_DONE || is_done(b->before))
        f->seen_ns = 0;
    f->paused_ns = end == WAIT_DONE ? pause_of(f, waited) : 0;
    return f->paused_ns;
}

void flight_wait(CUcontext context, CUstream stream, const struct flight_bound *b,
                 bool (*goes_on)(int card), int card)
{
    int mode = streams_relax();
    uint64_t began = mono_ns(), pause = 0;
    enum wait_end end = wait_for(b->oldest, goes_on, card);
    lock();
    struct flight *f = find(context, stream_key(stream));
    if (f != NULL)
        pause = note_end(f, b, end, mono_ns() - began);
    unlock();
    if (pause >= RAW_LOOK_NS && goes_on(card))
        raw_sleep(pause);
    streams_tighten(mode);
}

/* --- For who answers the agent --- */

static bool are_threads_done(CUcontext current)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (flights[i].context == current && flights[i].key.tid != 0 && !is_past(&flights[i]))
            return false;
    }
    return true;
}

/* The streams are asked, and who has given the last piece in a stream of its own thread's. */
static bool is_context_done(CUcontext context, void *arg)
{
    (void)arg;
    return also.cuCtxSetCurrent(context) != CUDA_SUCCESS ||
           (streams_are_done(context) && are_threads_done(context));
}

bool flight_is_empty(int card)
{
    lock();
    bool empty = live_contexts_all(card, is_context_done, /* arg= */ NULL);
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
