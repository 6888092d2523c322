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
#define HOLD_MAX_NS  (20 * MONO_MS)

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
    uint64_t least_ns; /* ... and the shortest of the last ones */
    /* When the card had done the piece with this number, or had nothing to do, and began the next; 0: not
     * known. */
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
    f->piece_ns = f->least_ns = f->seen_ns = 0;
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
    return (struct flight_bound){.oldest = f->ring[oldest % RING], .number = oldest};
}

/* How long each took of those after the one that was seen, up to this one, which is just done; 0: not
 * known. */
static uint64_t took(const struct flight *f, unsigned int number, uint64_t now)
{
    unsigned int n = number - f->seen;
    return f->seen_ns == 0 || n == 0 || n > RING ? 0 : (now - f->seen_ns) / n;
}

static void see(struct flight *f, unsigned int number, uint64_t now)
{
    f->seen = number;
    f->seen_ns = now;
}

/* The card has done it just now. */
static void measure(struct flight *f, unsigned int number)
{
    uint64_t now = mono_ns(), each = took(f, number, now);
    see(f, number, now);
    if (each == 0)
        return;
    uint64_t least = f->least_ns + f->least_ns / 8;
    f->piece_ns = f->piece_ns != 0 ? (f->piece_ns * 3 + each) / 4 : each;
    f->least_ns = least != 0 && least < each ? least : each;
    uint64_t depth = IN_FLIGHT_NS / (f->piece_ns != 0 ? f->piece_ns : 1);
    f->depth = (unsigned int)(depth < DEPTH_MIN ? DEPTH_MIN : depth >= RING ? RING - 1 : depth);
}

/* The next piece begins as soon as it is given. Those before took no longer than until now: who held
 * one back for too long does not do so again. */
static void note_rest(struct flight *f)
{
    uint64_t now = mono_ns(), most = took(f, f->given - 1, now);
    if (most != 0 && most < f->least_ns)
        f->least_ns = most;
    see(f, f->given - 1, now);
}

/* --- For who gives work --- */

struct flight_bound flight_add(int card, CUcontext context, CUstream stream)
{
    int mode = streams_relax();
    lock();
    struct flight *f = find_or_add(card, context, stream_key(stream));
    struct flight_bound b = {0};
    if (f != NULL && is_past(f))
        note_rest(f);
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

void flight_wait(CUcontext context, CUstream stream, const struct flight_bound *b,
                 bool (*goes_on)(int card), int card)
{
    int mode = streams_relax();
    enum wait_end end = wait_for(b->oldest, goes_on, card);
    lock();
    struct flight *f = find(context, stream_key(stream));
    if (f != NULL)
        f->stuck = end == WAIT_STUCK ? b->oldest : NULL;
    if (f != NULL && end == WAIT_DONE)
        measure(f, b->number);
    unlock();
    streams_tighten(mode);
}

/* With long pieces: it is the last one that was given. */
static bool is_one_begun(const struct flight *f)
{
    return f->depth == DEPTH_MIN && f->seen_ns != 0 && f->seen + 2 == f->given;
}

/* The piece that the card has begun may be as short as the shortest. */
uint64_t flight_early(CUcontext context, CUstream stream)
{
    int mode = streams_relax();
    uint64_t now = mono_ns(), until = 0;
    lock();
    struct flight *f = find(context, stream_key(stream));
    if (f != NULL && is_one_begun(f) && !is_past(f)) {
        uint64_t part = f->least_ns * 3 / 4;
        until = f->seen_ns + (part < HOLD_MAX_NS ? part : HOLD_MAX_NS);
    }
    unlock();
    streams_tighten(mode);
    return until > now ? until - now : 0;
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

static void note_ends(CUcontext current, enum flight_look look)
{
    for (unsigned int i = 0; i < reach && look != FLIGHT_LOOK; i++) {
        struct flight *f = &flights[i];
        if (f->context == current && f->done != f->given && is_past(f) && look == FLIGHT_LOOK_AGAIN)
            measure(f, f->given - 1);
    }
}

/* The streams are asked, and who has given the last piece in a stream of its own thread's. */
static bool is_context_done(CUcontext context, void *look)
{
    if (also.cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return true;
    note_ends(context, *(const enum flight_look *)look);
    return streams_are_done(context) && are_threads_done(context);
}

bool flight_is_empty(int card, enum flight_look look)
{
    lock();
    bool empty = live_contexts_all(card, is_context_done, &look);
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
