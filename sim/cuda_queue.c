/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_queue.h"

#include <stdlib.h>

#include "sim/cuda_handle.h"

static struct work *works;

static bool is_blocking(const struct stream *s)
{
    return s != &s->work->legacy && (s->flags & CU_STREAM_NON_BLOCKING) == 0;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- Streams --- */

static void init_stream(struct work *w, struct stream *s, unsigned int flags, int priority)
{
    *s = (struct stream){.work = w, .flags = flags, .priority = priority};
    s->last = &s->first;
}

struct stream *queue_add_stream(struct work *w, unsigned int flags, int priority)
{
    struct stream *s = malloc(sizeof(*s));
    if (s == NULL)
        return NULL;
    init_stream(w, s, flags, priority);
    s->next = w->streams;
    w->streams = s;
    return s;
}

static void free_if_over(struct stream *s)
{
    if (!s->ended || s->first != NULL || s->held > 0)
        return;
    for (struct stream **at = &s->work->streams; *at != NULL; at = &(*at)->next) {
        if (*at != s)
            continue;
        *at = s->next;
        free(s);
        return;
    }
}

void queue_end_stream(struct stream *s)
{
    if (s->capture != NULL)
        s->end_capture(s);
    handle_end(s->handle);
    s->handle = NULL;
    s->ended = true;
    free_if_over(s);
}

void queue_hold(struct stream *s)
{
    s->held++;
    queue_ref(s->work);
}

void queue_let_go(struct stream *s)
{
    struct work *w = s->work;
    s->held--;
    free_if_over(s);
    queue_unref(w);
}

/* --- Items --- */

void queue_add(struct stream *s, struct work_item *item)
{
    item->next = NULL;
    item->seq = ++s->work->seq;
    s->seq = item->seq;
    *s->last = item;
    s->last = &item->next;
    s->count++;
    s->work->pending++;
}

void queue_end_item(struct work_item *item)
{
    if (item->end != NULL)
        item->end(item);
    free(item);
}

static void pop(struct stream *s)
{
    struct work_item *item = s->first;
    s->first = item->next;
    if (s->first == NULL)
        s->last = &s->first;
    s->count--;
    s->work->pending--;
    queue_end_item(item);
}

static void notify(struct work *w)
{
    for (struct waiter *i = w->waiters; i != NULL; i = i->next) {
        if (w->ended || i->is_over(i))
            (void)pthread_cond_signal(&i->cond);
    }
}

static void pass_time(struct stream *s, int64_t at_ns)
{
    s->clock_ns = later(s->clock_ns, at_ns);
    if (is_blocking(s))
        s->work->blocking_ns = later(s->work->blocking_ns, at_ns);
}

void queue_finish(struct stream *s, int64_t at_ns)
{
    struct work *w = s->work;
    pass_time(s, at_ns);
    pop(s);
    free_if_over(s);
    notify(w);
}

int64_t queue_perform(struct stream *s, struct work_item *item, int64_t at_ns)
{
    CUresult rc = item->perform != NULL ? item->perform(item, &at_ns) : CUDA_SUCCESS;
    if (s->work->error == CUDA_SUCCESS)
        s->work->error = rc;
    pass_time(s, at_ns);
    return at_ns;
}

/* --- Order --- */

/* The number of the first item that waits in any blocking stream. */
static uint64_t first_blocking(const struct work *w)
{
    uint64_t seq = UINT64_MAX;
    for (const struct stream *s = w->streams; s != NULL; s = s->next) {
        if (is_blocking(s) && s->first != NULL && s->first->seq < seq)
            seq = s->first->seq;
    }
    return seq;
}

bool queue_is_free(const struct stream *s)
{
    if (s->first != NULL)
        return false;
    if (s == &s->work->legacy)
        return first_blocking(s->work) == UINT64_MAX;
    return !is_blocking(s) || s->work->legacy.first == NULL;
}

/* Of the first item of a stream. */
static bool is_in_order(const struct stream *s, uint64_t blocking)
{
    const struct work *w = s->work;
    if (s == &w->legacy)
        return s->first->seq < blocking;
    return !is_blocking(s) || w->legacy.first == NULL || s->first->seq < w->legacy.first->seq;
}

/* Streams of one priority take turns. */
static bool is_before(const struct stream *a, const struct stream *b)
{
    if (b == NULL || a->priority != b->priority)
        return b == NULL || a->priority < b->priority;
    return a->round != b->round ? a->round < b->round : a->first->seq < b->first->seq;
}

static bool may_begin(const struct stream *s, enum work_kind kind, uint64_t blocking)
{
    const struct work_item *item = s->first;
    return item != NULL && item->kind == kind && !s->busy && is_in_order(s, blocking) &&
           (item->is_ready == NULL || item->is_ready(item));
}

struct stream *queue_pick(struct work *w, enum work_kind kind)
{
    if (w->pending == 0)
        return NULL;
    uint64_t blocking = first_blocking(w);
    struct stream *best = may_begin(&w->legacy, kind, blocking) ? &w->legacy : NULL;
    for (struct stream *s = w->streams; s != NULL; s = s->next) {
        if (may_begin(s, kind, blocking) && is_before(s, best))
            best = s;
    }
    return best;
}

int64_t queue_ready_ns(const struct stream *s)
{
    int64_t at = s->first != NULL ? later(s->clock_ns, s->first->since_ns) : s->clock_ns;
    if (s == &s->work->legacy)
        return later(at, s->work->blocking_ns);
    return is_blocking(s) ? later(at, s->work->legacy.clock_ns) : at;
}

static bool is_stream_done(const struct stream *s, uint64_t seq)
{
    return s->first == NULL || s->first->seq > seq;
}

/* To wait for the legacy stream is to wait for what it waits for. */
bool queue_is_done(const struct work *w, const struct stream *s, uint64_t seq)
{
    if (s != NULL && s != &w->legacy)
        return is_stream_done(s, seq);
    if (!is_stream_done(&w->legacy, seq))
        return false;
    for (const struct stream *i = w->streams; i != NULL; i = i->next) {
        if ((s == NULL || is_blocking(i)) && !is_stream_done(i, seq))
            return false;
    }
    return true;
}

/* --- Waiting --- */

static void unlink_waiter(struct waiter *waiter)
{
    struct waiter **at = &waiter->work->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
}

void queue_wait(struct waiter *waiter)
{
    struct work *w = waiter->work;
    (void)pthread_cond_init(&waiter->cond, NULL);
    waiter->next = w->waiters;
    w->waiters = waiter;
    while (!w->ended && !waiter->is_over(waiter))
        context_wait(&waiter->cond);
    unlink_waiter(waiter);
    (void)pthread_cond_destroy(&waiter->cond);
}

/* --- A context's work --- */

bool queue_note_loss(struct work *w)
{
    if (!cuda_device_is_lost(w->device))
        return false;
    if (w->error == CUDA_SUCCESS)
        w->error = CUDA_ERROR_UNKNOWN;
    return true;
}

void queue_wake_others(const struct work *w)
{
    for (struct work *other = works; other != NULL; other = other->next) {
        if (other != w && other->wake != NULL && other->pending > 0)
            other->wake(other);
    }
}

void queue_ref(struct work *w)
{
    w->refs++;
}

void queue_unref(struct work *w)
{
    if (--w->refs > 0)
        return;
    while (w->streams != NULL) {
        struct stream *s = w->streams;
        w->streams = s->next;
        free(s);
    }
    (void)pthread_cond_destroy(&w->host_wake);
    free(w);
}

/* But for a function that runs: its thread ends it. */
static void drop(struct stream *s)
{
    struct work_item **from = s->busy ? &s->first->next : &s->first;
    handle_end(s->handle);
    s->handle = NULL;
    while (*from != NULL) {
        struct work_item *item = *from;
        *from = item->next;
        s->count--;
        s->work->pending--;
        queue_end_item(item);
    }
    s->last = from;
}

static void unlink_work(const struct work *w)
{
    struct work **at = &works;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

/* The threads see that it ended, and go. */
static void end_work(struct context_part *part)
{
    struct work *w = (struct work *)part;
    for (struct stream *s = w->streams; s != NULL; s = s->next) {
        if (s->capture != NULL)
            s->end_capture(s);
    }
    w->context->work = NULL;
    w->ended = true;
    unlink_work(w);
    drop(&w->legacy);
    for (struct stream *s = w->streams; s != NULL; s = s->next)
        drop(s);
    notify(w);
    queue_wake_others(w);
    if (w->wake != NULL)
        w->wake(w);
    (void)pthread_cond_signal(&w->host_wake);
    queue_unref(w);
}

struct work *queue_first(void)
{
    return works;
}

struct work *queue_of(struct cuda_context *context)
{
    if (context->work != NULL)
        return context->work;
    struct work *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return NULL;
    w->part.end = end_work;
    w->context = context;
    w->device = context->arena.device;
    w->refs = 1;
    init_stream(w, &w->legacy, 0, 0);
    (void)pthread_cond_init(&w->host_wake, NULL);
    context_add_part(context, &w->part);
    context->work = w;
    w->next = works;
    works = w;
    return w;
}
