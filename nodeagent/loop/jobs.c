/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/jobs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

/* A thread of the worker owns the job meanwhile, so what the loop needs is copied. */
struct running_job {
    const struct agent_job *job; /* its address only */
    enum agent_job_kind kind;
    const char *vendor; /* of its card, static; NULL: it has none, or one that is not known */
    struct device_slots slots;       /* BIND, RELEASE: those in its hands */
    char (*touched)[GPU_UUID_BYTES]; /* READ: the cards that others had in hand meanwhile; owned */
    size_t n_touched;
};

/* --- Cards in hand --- */

static struct busy_card *find_busy(const struct jobs *s, const char *uuid)
{
    for (size_t i = 0; i < s->n_busy; i++)
        if (strcmp(s->busy[i].uuid, uuid) == 0)
            return &s->busy[i];
    return NULL;
}

static bool has_touched(const struct running_job *r, const char *uuid)
{
    for (size_t i = 0; i < r->n_touched; i++)
        if (strcmp(r->touched[i], uuid) == 0)
            return true;
    return false;
}

static void touch(struct running_job *r, const char *uuid)
{
    if (r->kind == AGENT_JOB_READ && !has_touched(r, uuid))
        (void)snprintf(*XPUSH(r->touched, r->n_touched), GPU_UUID_BYTES, "%s", uuid);
}

/* The readings that run now may show the card between two layouts. */
static void take(struct jobs *s, const char *uuid, const struct agent_job *j)
{
    assert(!find_busy(s, uuid));
    struct busy_card *b = XPUSH(s->busy, s->n_busy);
    (void)snprintf(b->uuid, sizeof(b->uuid), "%s", uuid);
    b->job = j;
    b->changes = j->kind == AGENT_JOB_CARD || j->kind == AGENT_JOB_RECOVER;
    b->offer = j->offered;
    for (size_t i = 0; i < s->n; i++)
        touch(&s->running[i], uuid);
}

static void give_back(struct jobs *s, const struct agent_job *j)
{
    for (size_t i = s->n_busy; i-- > 0;)
        if (s->busy[i].job == j)
            s->busy[i] = s->busy[--s->n_busy];
}

static struct device_slots slots_of(const struct agent_job *j)
{
    struct device_slots slots = {0};
    for (size_t i = 0; i < j->binding.n; i++)
        device_slots_put(&slots, j->binding.bound[i].slot);
    if (j->kind == AGENT_JOB_RELEASE)
        device_slots_put(&slots, j->slot);
    return slots;
}

static bool is_for_slots(const struct agent_job *j)
{
    return j->kind == AGENT_JOB_BIND || j->kind == AGENT_JOB_RELEASE;
}

static void take_all(struct jobs *s, const struct agent_job *j)
{
    if (!is_for_slots(j) && *j->uuid)
        take(s, j->uuid, j);
    for (size_t i = 0; i < j->n_reach; i++)
        take(s, j->reach[i], j);
}

/* --- Jobs --- */

static struct running_job *find_running(const struct jobs *s, const struct agent_job *j)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->running[i].job == j)
            return &s->running[i];
    return NULL;
}

bool jobs_change(const struct jobs *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->running[i].kind != AGENT_JOB_READ)
            return true;
    return false;
}

/* NULL: the card is not known. */
static const char *vendor_of(const struct jobs *s, const char *uuid)
{
    const struct card_view *v = cards_find(s->cards, uuid);
    return v ? v->card.vendor : NULL;
}

static void note_running(struct jobs *s, const struct agent_job *j)
{
    const char *vendor = vendor_of(s, j->uuid);
    assert(!find_running(s, j));
    take_all(s, j);
    struct running_job *r = XPUSH(s->running, s->n);
    r->job = j;
    r->kind = j->kind;
    r->vendor = vendor;
    r->slots = slots_of(j);
    for (size_t i = 0; i < s->n_busy; i++)
        touch(r, s->busy[i].uuid);
}

/* What every job needs to know. */
static void add_facts(const struct jobs *s, struct agent_job *j)
{
    const struct cards *c = s->cards;
    j->driver_view = driver_view_hold(c->driver);
    j->slots_made = cards_slots_made(c);
    j->shares = shares_copy(&c->shares);
    if (c->kubelet)
        j->holders = holders_copy(kubelet_link_holders(c->kubelet));
}

void jobs_park(struct jobs *s, struct agent_job *j)
{
    assert(!s->parked && s->n == 0);
    add_facts(s, j);
    s->parked = j;
    worker_park(s->worker, agent_job_run, s->done, agent_job_free, j);
}

void jobs_unpark(struct jobs *s)
{
    struct agent_job *j = TAKE(s->parked);
    if (!j)
        return;
    if (worker_unpark(s->worker))
        note_running(s, j);
    else
        agent_job_free(j);
}

void jobs_submit(struct jobs *s, struct agent_job *j)
{
    auto_err struct err e = {0};
    add_facts(s, j);
    note_running(s, j);
    if (worker_submit(s->worker, agent_job_run, s->done, agent_job_free, j, &e) == 0)
        return;
    log_error("Could not queue work for the hardware", kv_err(&e));
    jobs_end(s, j);
    agent_job_free(j);
}

void jobs_end(struct jobs *s, const struct agent_job *j)
{
    struct running_job *r = find_running(s, j);
    assert(r);
    give_back(s, j);
    free(r->touched);
    *r = s->running[--s->n];
    assert(s->n > 0 || s->n_busy == 0); /* no card without its job */
}

bool jobs_has_room(const struct jobs *s)
{
    return s->n < worker_max_threads(s->worker);
}

void jobs_add_stuck_slots(const struct jobs *s, struct device_slots *ret)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct running_job *r = &s->running[i];
        if (!worker_stuck_job(s->worker, r->job))
            continue;
        for (unsigned slot = 0; slot < SLOT_MAX; slot++)
            if (device_slots_has(&r->slots, slot))
                device_slots_put(ret, slot);
    }
}

static size_t count_reads(const struct jobs *s, bool stuck)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->running[i].kind == AGENT_JOB_READ &&
             worker_stuck_job(s->worker, s->running[i].job) == stuck;
    return n;
}

bool jobs_reads(const struct jobs *s)
{
    size_t stuck = count_reads(s, /* stuck= */ true);
    return count_reads(s, /* stuck= */ false) > 0 ||
           (stuck > 0 && stuck >= worker_max_threads(s->worker) / 2);
}

bool jobs_has_card(const struct jobs *s, const char *uuid)
{
    return find_busy(s, uuid);
}

static size_t limit_of(const struct jobs *s, const char *vendor)
{
    for (size_t i = 0; i < s->n_limits; i++)
        if (strcmp(s->limits[i].vendor, vendor) == 0)
            return s->limits[i].cards_at_once;
    return SIZE_MAX;
}

bool jobs_may_take(const struct jobs *s, const char *uuid)
{
    const char *vendor = s->n_limits ? vendor_of(s, uuid) : NULL;
    size_t n = 0;
    if (jobs_has_card(s, uuid))
        return false;
    for (size_t i = 0; vendor && i < s->n; i++)
        n += s->running[i].vendor && strcmp(s->running[i].vendor, vendor) == 0 &&
             !worker_stuck_job(s->worker, s->running[i].job);
    return !vendor || n < limit_of(s, vendor);
}

bool jobs_hang_with(const struct jobs *s, const char *uuid)
{
    const struct busy_card *b = find_busy(s, uuid);
    return b && worker_stuck_job(s->worker, b->job);
}

bool jobs_mark_hangs(const struct jobs *s, struct cards *c)
{
    bool changed = false;
    for (size_t i = 0; i < c->n; i++) {
        struct card_view *v = &c->items[i];
        bool hangs = v->held_by_reading || jobs_hang_with(s, v->card.uuid);
        changed |= hangs != v->hangs;
        v->hangs = hangs;
    }
    return changed;
}

bool jobs_has_slot(const struct jobs *s, unsigned slot)
{
    for (size_t i = 0; i < s->n; i++)
        if (device_slots_has(&s->running[i].slots, slot))
            return true;
    return false;
}

bool jobs_release_share(const struct jobs *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->running[i].kind == AGENT_JOB_RELEASE && agent_job_is_of_shares(s->running[i].job))
            return true;
    return false;
}

bool jobs_touched(const struct jobs *s, const struct agent_job *j, const char *uuid)
{
    const struct running_job *r = find_running(s, j);
    return r && has_touched(r, uuid);
}

const char *jobs_stuck_call(const struct jobs *s)
{
    const char *call;
    int64_t since;
    return worker_stuck(s->worker, &call, &since) ? call : NULL;
}

struct jobs_news jobs_watch(struct jobs *s)
{
    struct jobs_news news = {.call = jobs_stuck_call(s)};
    size_t n = news.call ? count_reads(s, /* stuck= */ true) : 0;
    news.changed = !news.call != !s->stuck;
    news.reading_hangs = n > s->n_stuck_reads;
    s->stuck = news.call;
    s->n_stuck_reads = n;
    return news;
}

void jobs_done(struct jobs *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->running[i].touched);
    free(s->running);
    free(s->busy);
}
