/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/workqueue.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/strmap.h"
#include "base/xalloc.h"

#define ITEM_BASE_MS       5
#define ITEM_CAP_MS        (1000 * 1000)
#define BUCKET_INTERVAL_MS 100 /* 10 a second */
#define BUCKET_BURST       100

#define NOT_WAITING SIZE_MAX

/*
 * One key. It is freed as soon as it is not queued, not waiting, not being worked on and without
 * failures. `dirty` and `processing` are client-go's two sets.
 */
struct item {
    struct object_key key; /* into text */
    char *text;            /* the key in the map */
    char *strings;         /* what key points into */
    struct item *next;     /* in the queue */
    bool dirty, processing;
    int failures;
    size_t heap_pos; /* in the heap, or NOT_WAITING */
    int64_t ready_mono_ms, due_mono_ms, started_mono_ms;
};

struct wq {
    const char *name;
    const struct clock *clk;
    wq_observer_fn *observer;
    void *observer_arg;
    pthread_mutex_t mu;
    pthread_cond_t changed; /* a key to get, an earlier delay, or the end */
    pthread_cond_t idle;    /* nothing queued, nothing processing */
    /* guarded by mu */
    struct strmap *items;
    struct item *first, *last;
    struct item **heap; /* by ready_mono_ms; a binary heap */
    size_t heap_count;
    size_t queued, processing;
    int64_t bucket_mono_ms; /* when the bucket is full again */
    struct heartbeat *beat; /* NULL: no heartbeat */
    bool untaken;           /* keys are queued and no worker has one; the beat shows since when */
    bool shut_down;
};

static int64_t now_ms(const struct wq *q)
{
    return clock_mono_ms(q->clk);
}

static void notify_observer(const struct wq *q, enum wq_event event, int64_t ms)
{
    if (q->observer)
        q->observer(q->observer_arg, event, ms);
}

static void init_cond(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

struct wq *wq_new(const char *name, const struct clock *clk)
{
    assert(name && clk);
    struct wq *q = xmalloc(sizeof(*q));
    q->name = name;
    q->clk = clk;
    (void)pthread_mutex_init(&q->mu, NULL);
    init_cond(&q->changed);
    init_cond(&q->idle);
    q->items = strmap_new();
    return q;
}

const char *wq_name(const struct wq *q)
{
    return q->name;
}

void wq_observe(struct wq *q, wq_observer_fn *fn, void *arg)
{
    q->observer = fn;
    q->observer_arg = arg;
}

/* Items */

static struct item *item_new(const struct object_key *k, const char *text)
{
    struct item *it = xmalloc(sizeof(*it));
    const char *ns = k->ns ? k->ns : "";
    size_t ns_bytes = strlen(ns) + 1;
    it->text = xstrdup(text);
    it->strings = xmalloc(ns_bytes + strlen(k->name) + 1);
    it->key.ns = it->strings;
    it->key.name = it->strings + ns_bytes;
    (void)stpcpy(it->strings, ns);
    (void)stpcpy(it->strings + ns_bytes, k->name);
    it->heap_pos = NOT_WAITING;
    return it;
}

static void item_free(struct item *it)
{
    free(it->text);
    free(it->strings);
    free(it);
}

static struct item *find_item(const struct wq *q, const struct object_key *k)
{
    auto_free char *text = object_key_text(k);
    return strmap_get(q->items, text);
}

static struct item *find_or_make(struct wq *q, const struct object_key *k)
{
    auto_free char *text = object_key_text(k);
    struct item *it = strmap_get(q->items, text);
    if (!it) {
        it = item_new(k, text);
        (void)strmap_put(q->items, text, it);
    }
    return it;
}

static void drop_if_idle(struct wq *q, struct item *it)
{
    if (it->dirty || it->processing || it->failures || it->heap_pos != NOT_WAITING)
        return;
    (void)strmap_remove(q->items, it->text);
    item_free(it);
}

/* The heap of waiting items */

static bool earlier(const struct wq *q, size_t a, size_t b)
{
    return q->heap[a]->ready_mono_ms < q->heap[b]->ready_mono_ms;
}

static void heap_swap(struct wq *q, size_t a, size_t b)
{
    struct item *it = q->heap[a];
    q->heap[a] = q->heap[b];
    q->heap[b] = it;
    q->heap[a]->heap_pos = a;
    q->heap[b]->heap_pos = b;
}

static void heap_up(struct wq *q, size_t i)
{
    while (i > 0 && earlier(q, i, (i - 1) / 2)) {
        heap_swap(q, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void heap_down(struct wq *q, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < q->heap_count; child++)
            if (earlier(q, child, least))
                least = child;
        if (least == i)
            return;
        heap_swap(q, i, least);
        i = least;
    }
}

static void heap_add(struct wq *q, struct item *it)
{
    *XPUSH(q->heap, q->heap_count) = it;
    it->heap_pos = q->heap_count - 1;
    heap_up(q, it->heap_pos);
}

static struct item *heap_pop(struct wq *q)
{
    struct item *it = q->heap[0];
    heap_swap(q, 0, q->heap_count - 1);
    q->heap_count--;
    it->heap_pos = NOT_WAITING;
    heap_down(q, 0);
    return it;
}

/* After each change, with the lock held. */
static void update_beat(struct wq *q)
{
    bool untaken = q->queued && !q->processing;
    if (untaken && !q->untaken)
        heartbeat_busy(q->beat);
    else if (!untaken && q->heap_count && !q->processing)
        heartbeat_busy_from(q->beat, q->heap[0]->ready_mono_ms);
    else if (!untaken)
        heartbeat_idle(q->beat);
    q->untaken = untaken;
}

void wq_set_beat(struct wq *q, struct heartbeat *b)
{
    HOLD(&q->mu);
    q->beat = b;
    q->untaken = false;
    update_beat(q);
}

/* Adding */

static void enqueue(struct wq *q, struct item *it, int64_t due_mono_ms)
{
    it->due_mono_ms = due_mono_ms;
    it->next = NULL;
    if (q->last)
        q->last->next = it;
    else
        q->first = it;
    q->last = it;
    q->queued++;
    (void)pthread_cond_signal(&q->changed);
}

static void add_locked(struct wq *q, struct item *it, int64_t due_mono_ms)
{
    if (it->dirty)
        return;
    it->dirty = true;
    notify_observer(q, WQ_ADDED, 0);
    if (!it->processing)
        enqueue(q, it, due_mono_ms);
}

void wq_add(struct wq *q, const struct object_key *k)
{
    HOLD(&q->mu);
    if (!q->shut_down)
        add_locked(q, find_or_make(q, k), now_ms(q));
    update_beat(q);
}

static void wait_until(struct wq *q, struct item *it, int64_t ready_mono_ms)
{
    if (it->heap_pos == NOT_WAITING) {
        it->ready_mono_ms = ready_mono_ms;
        heap_add(q, it);
    } else if (ready_mono_ms < it->ready_mono_ms) {
        it->ready_mono_ms = ready_mono_ms;
        heap_up(q, it->heap_pos);
    }
    (void)pthread_cond_signal(&q->changed);
}

static void add_after_locked(struct wq *q, struct item *it, int64_t delay_ms)
{
    if (delay_ms <= 0)
        add_locked(q, it, now_ms(q));
    else
        wait_until(q, it, now_ms(q) + delay_ms);
}

void wq_add_after(struct wq *q, const struct object_key *k, int64_t delay_ms)
{
    HOLD(&q->mu);
    if (!q->shut_down)
        add_after_locked(q, find_or_make(q, k), delay_ms);
    update_beat(q);
}

static int64_t item_delay_ms(struct item *it)
{
    int64_t delay = ITEM_BASE_MS;
    for (int i = 0; i < it->failures && delay < ITEM_CAP_MS; i++)
        delay *= 2;
    it->failures++;
    return delay < ITEM_CAP_MS ? delay : ITEM_CAP_MS;
}

/* A token bucket kept as the time when it will be full again (GCRA): one number, no timer. */
static int64_t bucket_delay_ms(struct wq *q)
{
    int64_t now = now_ms(q);
    if (q->bucket_mono_ms < now)
        q->bucket_mono_ms = now;
    q->bucket_mono_ms += BUCKET_INTERVAL_MS;
    int64_t delay = q->bucket_mono_ms - now - (int64_t)BUCKET_BURST * BUCKET_INTERVAL_MS;
    return delay > 0 ? delay : 0;
}

void wq_add_rate_limited(struct wq *q, const struct object_key *k)
{
    HOLD(&q->mu);
    if (q->shut_down)
        return;
    struct item *it = find_or_make(q, k);
    int64_t own = item_delay_ms(it);
    int64_t all = bucket_delay_ms(q);
    notify_observer(q, WQ_RETRIED, 0);
    add_after_locked(q, it, own > all ? own : all);
    update_beat(q);
}

/* Taking */

static void move_due(struct wq *q)
{
    int64_t now = now_ms(q);
    while (q->heap_count && q->heap[0]->ready_mono_ms <= now) {
        struct item *it = heap_pop(q);
        add_locked(q, it, it->ready_mono_ms);
    }
}

static bool take_key(struct wq *q, struct object_key *ret_key)
{
    struct item *it = q->first;
    if (!it)
        return false;
    q->first = it->next;
    if (!q->first)
        q->last = NULL;
    q->queued--;
    q->processing++;
    it->dirty = false;
    it->processing = true;
    it->started_mono_ms = now_ms(q);
    notify_observer(q, WQ_WAITED, it->started_mono_ms - it->due_mono_ms);
    *ret_key = it->key;
    update_beat(q);
    /* This getter leaves, so another waiting one must watch the delays. */
    if (q->heap_count)
        (void)pthread_cond_signal(&q->changed);
    return true;
}

static void wait_for_key(struct wq *q)
{
    if (!q->heap_count || q->clk != clock_real()) {
        (void)pthread_cond_wait(&q->changed, &q->mu);
        return;
    }
    int64_t at = q->heap[0]->ready_mono_ms;
    struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (long)(at % 1000) * 1000000};
    (void)pthread_cond_timedwait(&q->changed, &q->mu, &ts);
}

bool wq_get(struct wq *q, struct object_key *ret_key)
{
    HOLD(&q->mu);
    for (;;) {
        move_due(q);
        if (take_key(q, ret_key))
            return true;
        if (q->shut_down)
            return false;
        wait_for_key(q);
    }
}

bool wq_try_get(struct wq *q, struct object_key *ret_key)
{
    HOLD(&q->mu);
    move_due(q);
    return take_key(q, ret_key);
}

void wq_done(struct wq *q, const struct object_key *k)
{
    HOLD(&q->mu);
    struct item *it = find_item(q, k);
    assert(it && it->processing);
    int64_t now = now_ms(q);
    it->processing = false;
    q->processing--;
    notify_observer(q, WQ_WORKED, now - it->started_mono_ms);
    if (it->dirty)
        enqueue(q, it, now);
    drop_if_idle(q, it);
    update_beat(q);
    if (!q->queued && !q->processing)
        (void)pthread_cond_broadcast(&q->idle);
}

void wq_forget(struct wq *q, const struct object_key *k)
{
    HOLD(&q->mu);
    struct item *it = find_item(q, k);
    if (!it)
        return;
    it->failures = 0;
    drop_if_idle(q, it);
}

int wq_failures(struct wq *q, const struct object_key *k)
{
    HOLD(&q->mu);
    const struct item *it = find_item(q, k);
    return it ? it->failures : 0;
}

/* The end */

static void stop_locked(struct wq *q)
{
    q->shut_down = true;
    while (q->heap_count)
        drop_if_idle(q, heap_pop(q));
    heartbeat_idle(q->beat);
    q->beat = NULL; /* the caller that drains the queue has a deadline of its own */
    (void)pthread_cond_broadcast(&q->changed);
}

void wq_shut_down(struct wq *q)
{
    HOLD(&q->mu);
    stop_locked(q);
}

void wq_shut_down_now(struct wq *q)
{
    HOLD(&q->mu);
    stop_locked(q);
    while (q->first) {
        struct item *it = q->first;
        q->first = it->next;
        it->dirty = false;
        drop_if_idle(q, it);
    }
    q->last = NULL;
    q->queued = 0;
}

void wq_drain(struct wq *q)
{
    HOLD(&q->mu);
    assert(q->shut_down);
    while (q->queued || q->processing)
        (void)pthread_cond_wait(&q->idle, &q->mu);
}

struct wq_stats wq_stats(struct wq *q)
{
    HOLD(&q->mu);
    struct wq_stats st = {.queued = (int64_t)q->queued,
                          .delayed = (int64_t)q->heap_count,
                          .processing = (int64_t)q->processing};
    int64_t now = now_ms(q);
    size_t pos = 0;
    void *value;
    while (q->processing && strmap_next(q->items, &pos, &(const char *){NULL}, &value)) {
        const struct item *it = value;
        if (it->processing && now - it->started_mono_ms > st.longest_work_ms)
            st.longest_work_ms = now - it->started_mono_ms;
    }
    return st;
}

struct wq *wq_free(struct wq *q)
{
    if (!q)
        return NULL;
    size_t pos = 0;
    void *it;
    while (strmap_next(q->items, &pos, &(const char *){NULL}, &it))
        item_free(it);
    (void)strmap_free(q->items);
    free(q->heap);
    (void)pthread_cond_destroy(&q->changed);
    (void)pthread_cond_destroy(&q->idle);
    (void)pthread_mutex_destroy(&q->mu);
    free(q);
    return NULL;
}
