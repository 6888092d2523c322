/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/sampler.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/telemetry/freshness.h"
#include "nodeagent/telemetry/neutral_fields.h"

/* An answer's bound (service/http_channel.h), without room for what is added at each scrape. */
#define MAX_PAGE_BYTES  ((size_t)4 << 20)
#define MAX_STALE_BYTES ((size_t)64 << 10)

#define US_OF_MS INT64_C(1000)
#define NS_OF_US INT64_C(1000)
#define US_OF_S  INT64_C(1000000)

enum {
    MAX_THREADS = 4, /* the one that reads, and those that hang in a call */
    HANG_ROUNDS = 2, /* so many intervals in a call are a hang */
    TOLD_AFTER = 2,  /* so many failures are logged: one alone may be a reset */
};

/* A card's last reading. The reading thread's own. */
struct sample {
    struct telemetry_card card;
    struct consumer *pods; /* one for each process; owned */
    bool is_read;          /* once */
    unsigned failures;     /* of the newest attempts */
};

struct sampler_thread {
    struct sampler *sampler;
    pthread_t id;
    unsigned turn;
    bool started, ended; /* started: it is to be joined */
};

struct sampler {
    struct sampler_options o;
    struct counter_list neutral;
    uint64_t wanted; /* the values that the page has */
    /* the reading thread's: the one that has the turn */
    struct telemetry_node node;
    struct sample *samples; /* one for each card of node */
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t wake, ended;
    struct telemetry_node next;
    bool has_next, stops;
    char *text; /* the page; NULL: none yet */
    size_t len;
    bool left_out; /* pods are, for want of room */
    struct freshness *fresh;
    size_t n_fresh;
    struct sampler_thread threads[MAX_THREADS];
    /* A thread whose call hangs loses its turn to a new one, and ends when the call returns. */
    unsigned turn;
    bool in_call;
    int64_t call_mono_ms; /* when the call began */
};

static void init_cond(pthread_cond_t *c)
{
    pthread_condattr_t a;
    (void)pthread_condattr_init(&a);
    (void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &a);
    (void)pthread_condattr_destroy(&a);
}

struct sampler *sampler_new(const struct sampler_options *o)
{
    assert(o->gpu->ops->measure && o->interval_ms > 0);
    struct sampler *s = xmalloc(sizeof(*s));
    s->o = *o;
    neutral_fields_list(&s->neutral);
    s->wanted = counter_list_values(o->counters) | counter_list_values(&s->neutral);
    (void)pthread_mutex_init(&s->mu, NULL);
    init_cond(&s->wake);
    init_cond(&s->ended);
    return s;
}

/* --- The node --- */

static void replace_hung(struct sampler *s);

void sampler_show(struct sampler *s, struct telemetry_node *node_take)
{
    HOLD(&s->mu);
    replace_hung(s);
    telemetry_node_done(&s->next);
    s->next = *node_take;
    *node_take = (struct telemetry_node){0};
    s->has_next = true;
    (void)pthread_cond_signal(&s->wake);
}

static struct sample *sample_of(const struct sampler *s, const char *uuid)
{
    for (size_t i = 0; i < s->node.n; i++)
        if (strcmp(s->node.cards[i].uuid, uuid) == 0)
            return &s->samples[i];
    return NULL;
}

/* Keeps the samples of cards that are still there. */
static void take_node(struct sampler *s, struct telemetry_node *next)
{
    struct sample *samples = xcalloc(next->n + 1, sizeof(*samples));
    for (size_t i = 0; i < next->n; i++) {
        struct sample *old = sample_of(s, next->cards[i].uuid);
        if (!old)
            continue;
        samples[i] = *old;
        old->pods = NULL;
    }
    for (size_t i = 0; s->samples && i < s->node.n; i++)
        free(s->samples[i].pods);
    free(s->samples);
    telemetry_node_done(&s->node);
    s->samples = samples;
    s->node = *next;
    *next = (struct telemetry_node){0};
}

static void take_next(struct sampler *s)
{
    auto_telemetry_node struct telemetry_node next = {0};
    {
        HOLD(&s->mu);
        if (!s->has_next)
            return;
        next = s->next;
        s->next = (struct telemetry_node){0};
        s->has_next = false;
    }
    take_node(s, &next);
}

/* --- A reading --- */

static bool is_shared(const struct telemetry_node_card *c)
{
    for (size_t i = 0; i < c->n_places; i++)
        if (c->places[i].is_shared)
            return true;
    return false;
}

/* Finds the pod of each process. A process that ended meanwhile, or is in no pod, has no uid. */
static void find_pods(const struct sampler *s, const struct telemetry_node_card *c,
                      struct sample *to)
{
    free(to->pods);
    to->pods = xcalloc((size_t)to->card.n_processes + 1, sizeof(*to->pods));
    for (unsigned i = 0; is_shared(c) && i < to->card.n_processes; i++)
        if (consumer_of_pid(s->o.proc_root, to->card.processes[i].pid, &to->pods[i],
                            /* e= */ NULL) < 0)
            to->pods[i] = (struct consumer){0};
}

static void note_result(struct sample *to, const char *uuid, const struct err *e)
{
    if (!e->kind && to->failures >= TOLD_AFTER)
        log_info("Reads the telemetry of a card again", kv("gpu", uuid));
    to->failures = e->kind ? to->failures + 1 : 0;
    if (to->failures == TOLD_AFTER)
        log_warn("Could not read the telemetry of a card", kv("gpu", uuid), kv_err(e));
}

static void begin_call(struct sampler *s)
{
    HOLD(&s->mu);
    s->in_call = true;
    s->call_mono_ms = clock_mono_ms(s->o.clk);
}

/* False: the turn was lost meanwhile, or it stops. */
static bool end_call(struct sampler *s, unsigned turn)
{
    HOLD(&s->mu);
    if (turn != s->turn || s->stops)
        return false;
    s->in_call = false;
    return true;
}

/* False: the turn was lost, and with it everything but the arguments. */
static bool measure(struct sampler *s, unsigned turn, size_t at, struct telemetry_card *room)
{
    auto_err struct err e = {0};
    char uuid[GPU_UUID_BYTES];
    memcpy(uuid, s->node.cards[at].uuid, sizeof(uuid));
    *room = (struct telemetry_card){0};
    begin_call(s);
    int rc = s->o.gpu->ops->measure(s->o.gpu, uuid, s->wanted, room, &e);
    if (!end_call(s, turn))
        return false;
    struct sample *to = &s->samples[at];
    note_result(to, uuid, &e);
    if (rc < 0)
        return true;
    assert(room->n_parts <= TELEMETRY_MAX_PARTS && room->n_processes <= TELEMETRY_MAX_PROCESSES);
    to->card = *room;
    to->is_read = true;
    find_pods(s, &s->node.cards[at], to);
    return true;
}

/* --- The page --- */

static void write_page(const struct sampler *s, bool without_pods, struct sb *out)
{
    auto_free struct attribution_reading *readings = xcalloc(s->node.n + 1, sizeof(*readings));
    for (size_t i = 0; i < s->node.n; i++)
        if (s->samples[i].is_read)
            readings[i] = (struct attribution_reading){&s->samples[i].card, s->samples[i].pods};
    const struct dcgm_page p = {.node = &s->node,
                                .readings = readings,
                                .counters = s->o.counters,
                                .neutral = &s->neutral,
                                .host = s->o.host,
                                .labels = s->o.labels,
                                .without_pods = without_pods};
    dcgm_page_write(&p, out);
}

/* Caller frees. */
static struct freshness *freshness_of(const struct sampler *s)
{
    struct freshness *all = xcalloc(s->node.n + 1, sizeof(*all));
    for (size_t i = 0; i < s->node.n; i++) {
        const struct sample *from = &s->samples[i];
        all[i] = (struct freshness){.index = s->node.cards[i].index,
                                    .is_read = from->is_read,
                                    .failed = from->failures > 0,
                                    .read_mono_ms = from->card.read_mono_ms};
        memcpy(all[i].uuid, s->node.cards[i].uuid, sizeof(all[i].uuid));
    }
    return all;
}

/* Where the page has no room for all pods of shared cards, none is on it: sums over a part of them
 * would be wrong. */
static void publish(struct sampler *s)
{
    auto_sb struct sb page = SB_INIT(MAX_PAGE_BYTES - MAX_STALE_BYTES);
    write_page(s, /* without_pods= */ false, &page);
    bool left_out = page.overflow;
    if (left_out) {
        sb_reset(&page);
        write_page(s, /* without_pods= */ true, &page);
    }
    struct freshness *fresh = freshness_of(s);
    HOLD(&s->mu);
    free(s->text);
    free(s->fresh);
    s->len = page.overflow ? 0 : page.len;
    s->text = page.overflow ? xstrdup("") : xmemdup(sb_str(&page), page.len + 1);
    s->left_out = left_out;
    s->fresh = fresh;
    s->n_fresh = s->node.n;
}

/* False: the turn was lost. */
static bool read_all(struct sampler *s, unsigned turn)
{
    auto_free struct telemetry_card *room = xmalloc(sizeof(*room));
    take_next(s);
    for (size_t i = 0; i < s->node.n; i++)
        if (!measure(s, turn, i, room))
            return false;
    take_next(s); /* pods may have gone meanwhile */
    publish(s);
    return true;
}

void sampler_round(struct sampler *s)
{
    (void)read_all(s, s->turn);
}

static void add_left_out(bool left_out, struct sb *out)
{
    sb_addf(out,
            "# HELP cleave_agent_telemetry_pods_left_out 1 while the pods of shared cards are left "
            "out, since the page has no room for them.\n"
            "# TYPE cleave_agent_telemetry_pods_left_out gauge\n"
            "cleave_agent_telemetry_pods_left_out %d\n",
            left_out);
}

int sampler_page(void *arg, struct sb *body)
{
    struct sampler *s = arg;
    int64_t now_mono_ms = clock_mono_ms(s->o.clk);
    HOLD(&s->mu);
    if (s->text)
        sb_add_mem(body, s->text, s->len);
    freshness_write(s->fresh, s->n_fresh, HANG_ROUNDS * s->o.interval_ms, now_mono_ms, body);
    add_left_out(s->left_out, body);
    return 200;
}

/* --- The threads --- */

static struct timespec timespec_of(int64_t mono_us)
{
    return (struct timespec){.tv_sec = mono_us / US_OF_S, .tv_nsec = mono_us % US_OF_S * NS_OF_US};
}

static int64_t real_mono_us(void)
{
    return clock_mono_us(clock_real());
}

/* Waits for the next round: until then, or until the first news of the node. False: it stops. */
static bool await_round(struct sampler *s, int64_t at_us)
{
    const struct timespec until = timespec_of(at_us);
    int rc = 0;
    HOLD(&s->mu);
    while (!s->stops && rc != ETIMEDOUT && !(s->has_next && !s->n_fresh))
        rc = pthread_cond_timedwait(&s->wake, &s->mu, &until);
    return !s->stops;
}

static void *thread_main(void *arg)
{
    struct sampler_thread *t = arg;
    struct sampler *s = t->sampler;
    bool has_turn = true;
    for (int64_t at_us = real_mono_us(); has_turn && await_round(s, at_us);) {
        at_us = real_mono_us() + s->o.interval_ms * US_OF_MS;
        has_turn = read_all(s, t->turn);
    }
    HOLD(&s->mu);
    t->ended = true;
    (void)pthread_cond_signal(&s->ended);
    return NULL;
}

/* A thread that is not in use; NULL: as many hang as may. */
static struct sampler_thread *free_thread(struct sampler *s)
{
    for (size_t i = 0; i < MAX_THREADS; i++) {
        struct sampler_thread *t = &s->threads[i];
        if (t->started && t->ended)
            (void)pthread_join(t->id, NULL);
        if (!t->started || t->ended)
            return t;
    }
    return NULL;
}

/* Gives the next turn to a new thread. */
static int start(struct sampler *s, struct sampler_thread *t, struct err *e)
{
    *t = (struct sampler_thread){.sampler = s, .turn = s->turn + 1};
    int rc = pthread_create(&t->id, NULL, thread_main, t);
    if (rc != 0)
        return err_set_errno(e, rc, "start the thread of telemetry");
    (void)pthread_setname_np(t->id, "telemetry");
    t->started = true;
    s->turn = t->turn;
    s->in_call = false;
    return 0;
}

int sampler_start(struct sampler *s, struct err *e)
{
    HOLD(&s->mu);
    return start(s, &s->threads[0], e);
}

/* Gives the turn to another thread when the call of the one that has it hangs. The card of that
 * call is refused meanwhile (gpu_ops.measure). */
static void replace_hung(struct sampler *s)
{
    auto_err struct err e = {0};
    int64_t now_mono_ms = clock_mono_ms(s->o.clk);
    if (!s->threads[0].started || !s->in_call || s->stops ||
        now_mono_ms - s->call_mono_ms <= HANG_ROUNDS * s->o.interval_ms)
        return;
    struct sampler_thread *t = free_thread(s);
    if (t && start(s, t, &e) < 0)
        log_error("Could not go on reading telemetry", kv_err(&e));
}

static bool have_ended(const struct sampler *s)
{
    for (size_t i = 0; i < MAX_THREADS; i++)
        if (s->threads[i].started && !s->threads[i].ended)
            return false;
    return true;
}

/* False: they did not end in time. */
static bool stop(struct sampler *s, int64_t grace_ms)
{
    const struct timespec until = timespec_of(real_mono_us() + grace_ms * US_OF_MS);
    HOLD(&s->mu);
    s->stops = true;
    (void)pthread_cond_broadcast(&s->wake);
    while (!have_ended(s))
        if (pthread_cond_timedwait(&s->ended, &s->mu, &until) == ETIMEDOUT)
            return have_ended(s);
    return true;
}

struct sampler *sampler_free(struct sampler *s, int64_t grace_ms, bool *ret_abandoned)
{
    bool abandoned = s && !stop(s, grace_ms);
    if (ret_abandoned)
        *ret_abandoned = abandoned;
    if (!s || abandoned)
        return NULL;
    for (size_t i = 0; i < MAX_THREADS; i++)
        if (s->threads[i].started)
            (void)pthread_join(s->threads[i].id, NULL);
    for (size_t i = 0; i < s->node.n; i++)
        free(s->samples[i].pods);
    free(s->samples);
    telemetry_node_done(&s->node);
    telemetry_node_done(&s->next);
    counter_list_done(&s->neutral);
    free(s->text);
    free(s->fresh);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_cond_destroy(&s->ended);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
