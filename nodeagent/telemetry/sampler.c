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

#include "nodeagent/telemetry/hami_page.h"
#include "nodeagent/telemetry/neutral_fields.h"
#include "nodeagent/telemetry/page_text.h"
#include "nodeagent/telemetry/samples.h"

/* An answer's bound (service/http_channel.h), without room for what is added at each scrape. */
#define MAX_PAGE_BYTES  ((size_t)4 << 20)
#define MAX_STALE_BYTES ((size_t)64 << 10)

#define US_OF_MS INT64_C(1000)
#define NS_OF_US INT64_C(1000)
#define US_OF_S  INT64_C(1000000)

enum {
    MAX_THREADS = 4, /* the one that reads, and three that hang in a call */
    HANG_ROUNDS = 2, /* a call that lasts for so many intervals hangs */
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
    struct samples samples;
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t wake, ended;
    struct telemetry_node next;
    bool has_next, stops;
    char *text; /* the page; NULL: none yet */
    size_t len;
    bool left_out; /* the page has no room for the pods of shared cards */
    struct freshness *fresh;
    size_t n_fresh;
    struct sampler_thread threads[MAX_THREADS];
    /* A thread whose call hangs loses its turn to a new one, and ends when the call returns. */
    unsigned turn;
    bool in_call;
    int64_t call_us; /* when the call began */
    /* Looks whether a call hangs. */
    pthread_t watchdog;
    bool is_watched; /* the watchdog is to be joined */
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
    s->wanted = (o->hami ? HAMI_PAGE_VALUES : 0) | counter_list_values(o->counters) |
                counter_list_values(&s->neutral);
    (void)pthread_mutex_init(&s->mu, NULL);
    init_cond(&s->wake);
    init_cond(&s->ended);
    return s;
}

/* --- The node --- */

void sampler_show(struct sampler *s, struct telemetry_node *node_take)
{
    HOLD(&s->mu);
    telemetry_node_done(&s->next);
    s->next = *node_take;
    *node_take = (struct telemetry_node){0};
    s->has_next = true;
    (void)pthread_cond_broadcast(&s->wake);
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
    samples_take_node(&s->samples, &next);
}

/* --- A reading --- */

static int64_t real_mono_us(void)
{
    return clock_mono_us(clock_real());
}

static void begin_call(struct sampler *s)
{
    HOLD(&s->mu);
    s->in_call = true;
    s->call_us = real_mono_us();
}

/* False: the turn was lost meanwhile, or the sampler stops. */
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
    memcpy(uuid, s->samples.node.cards[at].uuid, sizeof(uuid));
    *room = (struct telemetry_card){0};
    begin_call(s);
    (void)s->o.gpu->ops->measure(s->o.gpu, uuid, s->wanted, room, &e);
    if (!end_call(s, turn))
        return false;
    samples_note(&s->samples, at, room, s->o.proc_root, &e);
    return true;
}

/* --- The page --- */

static void write_page(struct sampler *s, bool without_pods, struct sb *out)
{
    const struct dcgm_page how = {.counters = s->o.counters,
                                  .neutral = &s->neutral,
                                  .host = s->o.host,
                                  .labels = s->o.labels,
                                  .hami = s->o.hami,
                                  .without_pods = without_pods};
    samples_write(&s->samples, how, out);
}

/* Writes the page anew. Where it has no room for all pods of shared cards, none is on it: sums over
 * a part of them would be wrong. */
static void publish(struct sampler *s)
{
    auto_sb struct sb page = SB_INIT(MAX_PAGE_BYTES - MAX_STALE_BYTES);
    write_page(s, /* without_pods= */ false, &page);
    bool left_out = page.overflow;
    if (left_out) {
        sb_reset(&page);
        write_page(s, /* without_pods= */ true, &page);
    }
    struct freshness *fresh = samples_freshness(&s->samples);
    HOLD(&s->mu);
    free(s->text);
    free(s->fresh);
    s->len = page.overflow ? 0 : page.len;
    s->text = page.overflow ? xstrdup("") : xmemdup(sb_str(&page), page.len + 1);
    s->left_out = left_out;
    s->fresh = fresh;
    s->n_fresh = s->samples.node.n;
}

/* False: the turn was lost. */
static bool read_all(struct sampler *s, unsigned turn)
{
    auto_free struct telemetry_card *room = xmalloc(sizeof(*room));
    take_next(s);
    for (size_t i = 0; i < s->samples.node.n; i++)
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
    static const char name[] = "cleave_agent_telemetry_pods_left_out";
    page_text_head(
        out, name,
        "1 while the pods of shared cards are left out, since the page has no room for them.",
        /* is_counter= */ false);
    sb_addf(out, "%s %d\n", name, left_out);
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

/* Waits for the next round: until at_us, or until the node's cards are shown for the first time.
 * False: the sampler stops. */
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

/* --- The watchdog --- */

static int64_t hang_us(const struct sampler *s)
{
    return HANG_ROUNDS * s->o.interval_ms * US_OF_MS;
}

/* Gives the turn to another thread when the call of the one that has it hangs. The card of that
 * call is refused meanwhile (gpu_ops.measure). */
static void replace_hung(struct sampler *s)
{
    auto_err struct err e = {0};
    struct sampler_thread *t = free_thread(s);
    if (t && start(s, t, &e) < 0)
        log_error("Could not go on reading telemetry", kv_err(&e));
}

static bool hangs(const struct sampler *s, int64_t now_us)
{
    return s->in_call && now_us - s->call_us >= hang_us(s);
}

/* The time at which the watchdog looks next: when the call that is under way will have lasted for
 * so long that it hangs. Without such a call it is after as long: one that begins now hangs no
 * earlier. */
static int64_t next_look_us(const struct sampler *s, int64_t now_us)
{
    return (s->in_call && !hangs(s, now_us) ? s->call_us : now_us) + hang_us(s);
}

static void *watchdog_main(void *arg)
{
    struct sampler *s = arg;
    HOLD(&s->mu);
    while (!s->stops) {
        const struct timespec until = timespec_of(next_look_us(s, real_mono_us()));
        int rc = 0;
        while (!s->stops && rc != ETIMEDOUT)
            rc = pthread_cond_timedwait(&s->wake, &s->mu, &until);
        if (!s->stops && hangs(s, real_mono_us()))
            replace_hung(s);
    }
    return NULL;
}

static int start_watchdog(struct sampler *s, struct err *e)
{
    int rc = pthread_create(&s->watchdog, NULL, watchdog_main, s);
    if (rc != 0)
        return err_set_errno(e, rc, "start the watchdog of telemetry");
    (void)pthread_setname_np(s->watchdog, "telemetry-watch");
    s->is_watched = true;
    return 0;
}

/* --- Life --- */

int sampler_start(struct sampler *s, struct err *e)
{
    HOLD(&s->mu);
    TRY(start(s, &s->threads[0], e));
    return start_watchdog(s, e);
}

static bool have_ended(const struct sampler *s)
{
    for (size_t i = 0; i < MAX_THREADS; i++)
        if (s->threads[i].started && !s->threads[i].ended)
            return false;
    return true;
}

/* False: a thread did not end in time. */
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
    if (s->is_watched)
        (void)pthread_join(s->watchdog, NULL);
    samples_done(&s->samples);
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
