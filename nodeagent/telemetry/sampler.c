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

/* An answer's bound (service/http_channel.h), without room for what is added at each scrape. */
#define MAX_PAGE_BYTES  ((size_t)4 << 20)
#define MAX_STALE_BYTES ((size_t)64 << 10)

#define US_OF_MS INT64_C(1000)
#define NS_OF_US INT64_C(1000)
#define US_OF_S  INT64_C(1000000)

/* A card's last reading. The thread's own. */
struct sample {
    struct telemetry_card card;
    struct consumer *pods; /* one for each process; owned */
    bool is_read;          /* once */
    bool failed;           /* the newest attempt did */
};

/* How old a card's values are, for those who ask for the page. */
struct freshness {
    unsigned index;
    char uuid[GPU_UUID_BYTES];
    bool is_read, failed;
    int64_t read_mono_ms;
};

struct sampler {
    struct sampler_options o;
    /* the thread's */
    struct telemetry_node node;
    struct sample *samples; /* one for each card of node */
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t wake, ended;
    struct telemetry_node next;
    bool has_next, stops, has_ended;
    char *text; /* the page; NULL: none yet */
    size_t len;
    bool left_out; /* pods are, for want of room */
    struct freshness *fresh;
    size_t n_fresh;
    bool started;
    pthread_t thread;
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
    (void)pthread_mutex_init(&s->mu, NULL);
    init_cond(&s->wake);
    init_cond(&s->ended);
    return s;
}

/* --- What is known of the node --- */

void sampler_show(struct sampler *s, struct telemetry_node *node_take)
{
    HOLD(&s->mu);
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

/* Takes the samples of cards that are still there along. */
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
    for (size_t i = 0; i < s->node.n; i++)
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

/* One that ended meanwhile, or is in no pod, has no uid. */
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

static void measure(const struct sampler *s, const struct telemetry_node_card *c,
                    struct telemetry_card *room, struct sample *to)
{
    auto_err struct err e = {0};
    *room = (struct telemetry_card){0};
    bool failed = s->o.gpu->ops->measure(s->o.gpu, c->uuid, room, &e) < 0;
    if (failed && !to->failed)
        log_warn("Could not read the telemetry of a card", kv("gpu", c->uuid), kv_err(&e));
    else if (!failed && to->failed)
        log_info("Reads the telemetry of a card again", kv("gpu", c->uuid));
    to->failed = failed;
    if (failed)
        return;
    assert(room->n_parts <= TELEMETRY_MAX_PARTS && room->n_processes <= TELEMETRY_MAX_PROCESSES);
    to->card = *room;
    to->is_read = true;
    find_pods(s, c, to);
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
                                    .failed = from->failed,
                                    .read_mono_ms = from->card.read_mono_ms};
        memcpy(all[i].uuid, s->node.cards[i].uuid, sizeof(all[i].uuid));
    }
    return all;
}

/* Where pods take more than there is room for, a part of them would be wrong sums. */
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

void sampler_round(struct sampler *s)
{
    auto_free struct telemetry_card *room = xmalloc(sizeof(*room));
    take_next(s);
    for (size_t i = 0; i < s->node.n; i++)
        measure(s, &s->node.cards[i], room, &s->samples[i]);
    take_next(s); /* pods may have gone meanwhile */
    publish(s);
}

static bool is_stale(const struct sampler *s, const struct freshness *f, int64_t age_ms)
{
    return f->failed || !f->is_read || age_ms > 2 * s->o.interval_ms;
}

static void add_head(struct sb *out, const char *name, const char *help)
{
    sb_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void add_freshness(const struct sampler *s, int64_t now_mono_ms, struct sb *out)
{
    if (s->n_fresh)
        add_head(out, "cleave_agent_telemetry_stale",
                 "1 while the values of this card are older than they should be.");
    for (size_t i = 0; i < s->n_fresh; i++) {
        const struct freshness *f = &s->fresh[i];
        sb_addf(out, "cleave_agent_telemetry_stale{gpu=\"%u\"", f->index);
        dcgm_page_add_label(out, "UUID", f->uuid);
        sb_addf(out, "} %d\n", is_stale(s, f, now_mono_ms - f->read_mono_ms));
    }
    if (s->n_fresh)
        add_head(out, "cleave_agent_telemetry_age_seconds", "Age of the values of this card.");
    for (size_t i = 0; i < s->n_fresh; i++) {
        const struct freshness *f = &s->fresh[i];
        if (!f->is_read)
            continue;
        sb_addf(out, "cleave_agent_telemetry_age_seconds{gpu=\"%u\"", f->index);
        dcgm_page_add_label(out, "UUID", f->uuid);
        sb_addf(out, "} %.3f\n", (double)(now_mono_ms - f->read_mono_ms) / 1000);
    }
    add_head(out, "cleave_agent_telemetry_pods_left_out",
             "1 while the pods of shared cards are left out, since the page has no room for them.");
    sb_addf(out, "cleave_agent_telemetry_pods_left_out %d\n", s->left_out);
}

int sampler_page(void *arg, struct sb *body)
{
    struct sampler *s = arg;
    int64_t now_mono_ms = clock_mono_ms(s->o.clk);
    HOLD(&s->mu);
    if (s->text)
        sb_add_mem(body, s->text, s->len);
    add_freshness(s, now_mono_ms, body);
    return 200;
}

/* --- The thread --- */

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
    struct sampler *s = arg;
    int64_t at_us = real_mono_us() + s->o.interval_ms * US_OF_MS;
    while (await_round(s, at_us)) {
        at_us = real_mono_us() + s->o.interval_ms * US_OF_MS;
        sampler_round(s);
    }
    HOLD(&s->mu);
    s->has_ended = true;
    (void)pthread_cond_signal(&s->ended);
    return NULL;
}

int sampler_start(struct sampler *s, struct err *e)
{
    int rc = pthread_create(&s->thread, NULL, thread_main, s);
    if (rc != 0)
        return err_set_errno(e, rc, "start the thread of telemetry");
    (void)pthread_setname_np(s->thread, "telemetry");
    s->started = true;
    return 0;
}

/* False: it did not end in time. */
static bool stop(struct sampler *s, int64_t grace_ms)
{
    const struct timespec until = timespec_of(real_mono_us() + grace_ms * US_OF_MS);
    HOLD(&s->mu);
    s->stops = true;
    (void)pthread_cond_signal(&s->wake);
    while (s->started && !s->has_ended)
        if (pthread_cond_timedwait(&s->ended, &s->mu, &until) == ETIMEDOUT)
            return s->has_ended;
    return true;
}

struct sampler *sampler_free(struct sampler *s, int64_t grace_ms, bool *ret_abandoned)
{
    bool abandoned = s && !stop(s, grace_ms);
    if (ret_abandoned)
        *ret_abandoned = abandoned;
    if (!s || abandoned)
        return NULL;
    if (s->started)
        (void)pthread_join(s->thread, NULL);
    for (size_t i = 0; i < s->node.n; i++)
        free(s->samples[i].pods);
    free(s->samples);
    telemetry_node_done(&s->node);
    telemetry_node_done(&s->next);
    free(s->text);
    free(s->fresh);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_cond_destroy(&s->ended);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
