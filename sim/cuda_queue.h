/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asynchronous work of one context: its streams, what waits in them, and in which order that
 * may begin. No thread is here (cuda_worker.h).
 *
 * Items of a stream begin in its order, each when the one before it has ended. The legacy default
 * stream waits for what was submitted before to the blocking streams, and they wait for what was
 * submitted to it. All of it is guarded by the contexts' lock.
 *
 * Times are CLOCK_MONOTONIC, of the card: an item ends at the time that the model of its cost gives
 * (cuda_cost.h), however late a thread of this process saw it.
 */
#pragma once

#include "sim/cuda_context.h"
#include "sim/cuda_graph.h"
#include "sim/cuda_timeslice.h"

#define QUEUE_MAX      1024 /* items of a stream, as many as the driver lets wait */
#define WORK_FOREVER   UINT64_MAX
#define QUEUE_PRIORITY (-5) /* Assumed: the greatest, of all models; the least is 0 */

enum work_kind {
    WORK_INSTANT, /* done under the contexts' lock */
    WORK_KERNEL,  /* takes time of the card */
    WORK_HOST,    /* a function of the program, in a thread of its own */
};

/* What is submitted to a stream: the beginning of a struct of its submitter, from malloc. */
struct work_item {
    struct work_item *next;
    uint64_t seq;
    int64_t since_ns; /* submitted */
    enum work_kind kind;
    bool tells_others; /* other contexts' items may wait for it */
    uint64_t left_ns;  /* of a kernel; WORK_FOREVER: it ends with its context alone */
    bool (*is_ready)(const struct work_item *item); /* NULL: always */
    /* Does it, at that time of the card, and corrects the time. NULL: nothing is to do. */
    CUresult (*perform)(struct work_item *item, int64_t *at_ns);
    void (*end)(struct work_item *item); /* whether it was performed or not; may be NULL */

    /* Of one that may be captured, which has no `end`: the bytes of its struct, and the type of its
     * node. 0: it may not. */
    size_t bytes;
    int node_type;
};

struct stream {
    struct stream *next;
    struct work *work;
    void *handle; /* NULL: a default stream */
    unsigned int flags;
    int priority;
    uint64_t thread; /* whose default stream it is; 0: of none */
    bool ended;      /* goes with its last item */
    bool busy;       /* its first item is a function that runs */
    unsigned int held;
    unsigned int count;
    struct work_item *first, **last;
    uint64_t seq;     /* of its last item */
    int64_t clock_ns; /* when its last item ended */
    uint64_t round;   /* when it had the card last */

    /* while it is captured (cuda_capture.h) */
    struct capture *capture;               /* NULL: it is not */
    void (*end_capture)(struct stream *s); /* it goes, and is captured no more */
    struct node_set tail;                  /* what its next node depends on */
    CUgraphNode *listed;                   /* that, as the program asked for it last */
};

/* A caller that waits. */
struct waiter {
    struct waiter *next;
    pthread_cond_t cond;
    bool (*is_over)(const struct waiter *waiter);
    struct work *work;
    struct stream *stream; /* NULL: all of them */
    uint64_t seq;
    const void *about; /* whatever is_over looks at */
};

struct work {
    struct context_part part;
    struct work *next; /* of this process's */
    struct cuda_context *context;
    const struct cuda_device *device;
    unsigned int refs; /* its context, threads and waiters have one each */
    bool ended;
    CUresult error; /* the first one; all later calls have it */
    struct stream *streams, legacy;
    uint64_t seq, rounds;
    unsigned int pending; /* items of all streams */
    int64_t blocking_ns;  /* when the last item of a blocking stream ended */
    struct waiter *waiters;

    /* of the threads */
    void (*wake)(struct work *w); /* NULL: there is no worker */
    bool has_host, asleep, has_card;
    int seat;
    struct timeslice slice;
    struct stream *running; /* whose kernel runs until the slice ends, or itself */
    int64_t clock_ns;       /* how far the card's time is accounted for */
    pthread_cond_t host_wake;
};

/* A context's work, which it gets when it has none; NULL where there is no memory. */
struct work *queue_of(struct cuda_context *context);

/* The first context's work of this process; the others are behind it. */
struct work *queue_first(void);

/* Wakes the workers of other contexts, whose items may wait for what was done in this one. */
void queue_wake_others(const struct work *w);

void queue_ref(struct work *w);
void queue_unref(struct work *w);

/* A new stream, without a handle; NULL where there is no memory. */
struct stream *queue_add_stream(struct work *w, unsigned int flags, int priority);

/* Ends a stream, which goes once it is empty and nobody holds it. */
void queue_end_stream(struct stream *s);

/* Keeps a stream, and its work, in memory. */
void queue_hold(struct stream *s);
void queue_let_go(struct stream *s);

/* True when nothing must end before a new item of the stream may begin. */
bool queue_is_free(const struct stream *s);

/* True when all items up to that number are done: of a stream, or of all. */
bool queue_is_done(const struct work *w, const struct stream *s, uint64_t seq);

/* Ends an item that is in no stream. */
void queue_end_item(struct work_item *item);

/* Puts an item at the end of a stream. */
void queue_add(struct stream *s, struct work_item *item);

/* The stream whose first item, of that kind, is to begin next; NULL: there is none yet. */
struct stream *queue_pick(struct work *w, enum work_kind kind);

/* When the first item of a stream could begin. */
int64_t queue_ready_ns(const struct stream *s);

/* Performs an item that waits for nothing, or is a stream's first one: the time of its end, and
 * notes an error. */
int64_t queue_perform(struct stream *s, struct work_item *item, int64_t at_ns);

/* Ends a stream's first item at that time. */
void queue_finish(struct stream *s, int64_t at_ns);

/* Notes the error that work on a lost card ends with. Assumed: it is UNKNOWN, as programs report after
 * Xid 79. True: it is lost. */
bool queue_note_loss(struct work *w);

/* Blocks until the waiter's condition holds or the work ended. Fill in what is_over needs, and hold
 * all of it. */
void queue_wait(struct waiter *waiter);
