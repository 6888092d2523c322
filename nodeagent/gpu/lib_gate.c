/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/lib_gate.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/xalloc.h"

/* Calls take seconds, nvmlInit up to a minute on a full node whose driver does not stay loaded, and
 * a reset at most as long as nvidia-smi is given (nvml_mutate.c) and the event watch has to end. */
static const struct lib_gate_limits of_hardware = {.call_ms = 15000,
                                                   .open_ms = 60000,
                                                   .reset_ms = 125000,
                                                   .group_ms = 20000};

struct lib_gate {
    /* immutable */
    struct lib_gate_session session;
    struct lib_gate_limits limits;
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct lib_pass *inside;
    unsigned n_verbs, n_resets; /* inside; the one that is alone counts as neither */
    const struct lib_pass *alone;
    unsigned waiting_verbs, waiting_resets;
    unsigned due;          /* waiting verbs that go before the next resets */
    uint64_t groups;       /* of resets that have ended */
    int64_t group_mono_ms; /* when the resets that run began */
};

static int64_t now_ms(void)
{
    return clock_mono_ms(clock_real());
}

static void init_sync(pthread_mutex_t *mu, pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    (void)pthread_mutex_init(mu, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

static void wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t at_ms)
{
    struct timespec at = {.tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(cond, mu, &at);
}

struct lib_gate *lib_gate_new(const struct lib_gate_session *s,
                              const struct lib_gate_limits *limits)
{
    assert(s->vendor && s->state && s->open);
    struct lib_gate *g = xcalloc(1, sizeof(*g));
    g->session = *s;
    g->limits = limits ? *limits : of_hardware;
    init_sync(&g->mu, &g->changed);
    return g;
}

struct lib_gate *lib_gate_free(struct lib_gate *g)
{
    if (!g)
        return NULL;
    assert(!g->inside);
    (void)pthread_cond_destroy(&g->changed);
    (void)pthread_mutex_destroy(&g->mu);
    free(g);
    return NULL;
}

/* --- calls of others --- */

/* When the call that a thread is in began; INT64_MAX: it is in none. */
static int64_t call_began(const struct gpu_activity *a, const char **ret_call)
{
    const char *call = atomic_load(&a->call);
    int64_t since = atomic_load(&a->since_mono_ms);
    if (!call || atomic_load(&a->call) != call)
        return INT64_MAX;
    *ret_call = call;
    return since;
}

/* The oldest call of the threads inside; INT64_MAX: none. */
static int64_t oldest_call(const struct lib_gate *g, const char **ret_call)
{
    int64_t oldest = INT64_MAX;
    for (const struct lib_pass *p = g->inside; p; p = p->next) {
        const char *call = NULL;
        int64_t began = call_began(p->of, &call);
        if (began >= oldest)
            continue;
        oldest = began;
        *ret_call = call;
    }
    return oldest;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* began INT64_MAX: no call is known. */
static int refuse(const char *what, const char *call, int64_t began, struct err *e)
{
    if (began == INT64_MAX)
        return err_set(e, ERR_UNAVAILABLE, "%s: another thread does not leave the library", what);
    return err_set(e, ERR_UNAVAILABLE, "%s: %s has not returned for %lld s in another thread", what,
                   call, (long long)((now_ms() - began) / 1000));
}

/* --- waits; mu is held --- */

/* What keeps a thread out. */
enum obstacle { NOTHING, AN_OPENING, RESETS, VERBS, OTHERS_TURN };

struct waiter {
    struct lib_gate *g;
    bool resets;
    uint64_t groups;      /* when it came */
    enum obstacle behind; /* since: */
    int64_t since_mono_ms;
};

/* True for a verb that waited while a group of resets ran. */
static bool is_due(const struct waiter *w)
{
    return !w->resets && w->groups < w->g->groups;
}

static bool joins(const struct waiter *w)
{
    return w->resets && now_ms() - w->g->group_mono_ms < w->g->limits.group_ms;
}

static enum obstacle verbs_or_turn(const struct waiter *w, enum lib_session session)
{
    const struct lib_gate *g = w->g;
    if (w->resets)
        return g->n_verbs ? VERBS : g->due ? OTHERS_TURN : NOTHING;
    if (g->waiting_resets && !is_due(w))
        return OTHERS_TURN;
    return session == LIB_SESSION_NONE && g->n_verbs ? VERBS : NOTHING;
}

static enum obstacle obstacle_of(const struct waiter *w, enum lib_session session)
{
    if (w->g->alone)
        return AN_OPENING;
    if (w->g->n_resets)
        return joins(w) ? NOTHING : RESETS;
    return verbs_or_turn(w, session);
}

static int64_t deadline_of(const struct waiter *w, const char **ret_call, int64_t *ret_began)
{
    const struct lib_gate *g = w->g;
    *ret_began = oldest_call(g, ret_call);
    switch (w->behind) {
    case AN_OPENING:
        return g->alone->since_mono_ms + g->limits.open_ms;
    case RESETS:
        return g->group_mono_ms + g->limits.group_ms + g->limits.reset_ms;
    case VERBS:
        return earlier(w->since_mono_ms, *ret_began) + g->limits.call_ms;
    case OTHERS_TURN:
    case NOTHING:
        break;
    }
    return w->since_mono_ms + g->limits.call_ms;
}

static int give_up(const struct waiter *w, const char *call, int64_t began, struct err *e)
{
    auto_free char *what =
        xasprintf(w->resets            ? "the card cannot be reset while %s's library is called"
                  : w->behind == VERBS ? "no new session with %s's library can be opened"
                                       : "%s's library cannot be called now",
                  w->g->session.vendor);
    return refuse(what, call, began, e);
}

/* Waits once. ERR_UNAVAILABLE: long enough. */
static int wait_behind(struct waiter *w, enum obstacle behind, struct err *e)
{
    const char *call = NULL;
    int64_t began;
    if (behind != w->behind)
        w->since_mono_ms = now_ms();
    w->behind = behind;
    int64_t deadline = deadline_of(w, &call, &began);
    if (now_ms() >= deadline)
        return give_up(w, call, began, e);
    wait_until(&w->g->changed, &w->g->mu, deadline);
    return 0;
}

static void begin_waiting(struct waiter *w)
{
    assert(w->g->due <= w->g->waiting_verbs);
    w->groups = w->g->groups;
    if (w->resets)
        w->g->waiting_resets++;
    else
        w->g->waiting_verbs++;
}

static void end_waiting(const struct waiter *w)
{
    struct lib_gate *g = w->g;
    assert(w->resets ? g->waiting_resets > 0 : g->waiting_verbs > 0);
    assert(!is_due(w) || g->due > 0);
    if (w->resets)
        g->waiting_resets--;
    else
        g->waiting_verbs--;
    if (is_due(w))
        g->due--;
    assert(g->due <= g->waiting_verbs);
    (void)pthread_cond_broadcast(&g->changed);
}

/* True while resets run, begin, or wait. */
static bool has_resets(const struct lib_gate *g)
{
    return g->n_resets || g->waiting_resets || (g->alone && g->alone->resets);
}

/* Waits until nothing keeps the thread out. ret_closed NULL: also for resets. */
static int wait_free(struct waiter *w, bool *ret_closed, struct err *e)
{
    struct lib_gate *g = w->g;
    int rc = 0;
    begin_waiting(w);
    while (rc == 0) {
        if (ret_closed && (*ret_closed = has_resets(g)))
            break;
        enum obstacle behind = obstacle_of(w, g->session.state(g->session.arg));
        if (behind == NOTHING)
            break;
        rc = wait_behind(w, behind, e);
    }
    end_waiting(w);
    return rc;
}

/* --- going in and out --- */

static void add(struct lib_gate *g, struct lib_pass *p, bool resets)
{
    assert(!p->gate); /* it is outside */
    const struct gpu_activity *mine = gpu_activity_mine();
    for (const struct lib_pass *other = g->inside; other; other = other->next)
        assert(other->of != mine && "a thread is inside once");
    *p = (struct lib_pass){.gate = g,
                           .next = g->inside,
                           .of = mine,
                           .since_mono_ms = now_ms(),
                           .resets = resets};
    g->inside = p;
}

static void take_out(struct lib_gate *g, struct lib_pass *p)
{
    struct lib_pass **at = &g->inside;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    *p = (struct lib_pass){0};
}

/* Calls open or end without the lock; mu is held around it. */
static int be_alone(struct lib_gate *g, const struct lib_pass *p, struct err *e)
{
    int rc = 0;
    assert(!g->alone && !g->n_verbs && !g->n_resets);
    g->alone = p;
    (void)pthread_mutex_unlock(&g->mu);
    if (!p->resets)
        rc = g->session.open(g->session.arg, e);
    else if (g->session.end)
        g->session.end(g->session.arg);
    (void)pthread_mutex_lock(&g->mu);
    assert(g->alone == p && !g->n_verbs && !g->n_resets); /* it kept the others out */
    g->alone = NULL;
    (void)pthread_cond_broadcast(&g->changed);
    return rc;
}

/* WORN with verbs inside: the session serves a while longer. */
static int go_in(struct lib_gate *g, struct lib_pass *p, struct err *e)
{
    enum lib_session session = g->session.state(g->session.arg);
    add(g, p, /* resets= */ false);
    int rc = 0;
    if (session != LIB_SESSION_READY && !g->n_verbs)
        rc = be_alone(g, p, e);
    assert(!g->alone && !g->n_resets); /* no verb beside a reset */
    if (rc < 0)
        take_out(g, p);
    else
        g->n_verbs++;
    return rc;
}

int lib_gate_enter_unless_reset(struct lib_gate *g, struct lib_pass *p, bool *ret_closed,
                                struct err *e)
{
    struct waiter w = {.g = g};
    HOLD(&g->mu);
    TRY(wait_free(&w, ret_closed, e));
    return ret_closed && *ret_closed ? 0 : go_in(g, p, e);
}

int lib_gate_enter(struct lib_gate *g, struct lib_pass *p, struct err *e)
{
    return lib_gate_enter_unless_reset(g, p, /* ret_closed= */ NULL, e);
}

int lib_gate_enter_at_once(struct lib_gate *g, struct lib_pass *p, struct err *e)
{
    HOLD(&g->mu);
    if (g->alone || has_resets(g))
        return err_set(e, ERR_UNAVAILABLE, "%s's library is opened, or resets a card",
                       g->session.vendor);
    if (g->session.state(g->session.arg) == LIB_SESSION_NONE)
        return err_set(e, ERR_UNAVAILABLE, "no session with %s's library is open",
                       g->session.vendor);
    add(g, p, /* resets= */ false);
    g->n_verbs++;
    return 0;
}

int lib_gate_enter_reset(struct lib_gate *g, struct lib_pass *p, struct err *e)
{
    struct waiter w = {.g = g, .resets = true};
    HOLD(&g->mu);
    TRY(wait_free(&w, /* ret_closed= */ NULL, e));
    add(g, p, /* resets= */ true);
    if (!g->n_resets) {
        (void)be_alone(g, p, /* e= */ NULL);
        g->group_mono_ms = now_ms();
    }
    assert(!g->alone && !g->n_verbs); /* no reset beside a verb */
    g->n_resets++;
    return 0;
}

void lib_gate_leave(struct lib_pass *p)
{
    struct lib_gate *g = p->gate;
    if (!g)
        return;
    HOLD(&g->mu);
    assert(g->alone != p && (p->resets ? g->n_resets > 0 : g->n_verbs > 0));
    if (!p->resets)
        g->n_verbs--;
    else if (--g->n_resets == 0) {
        g->groups++;
        g->due = g->waiting_verbs;
    }
    take_out(g, p);
    (void)pthread_cond_broadcast(&g->changed);
}

struct lib_gate_counts lib_gate_count(struct lib_gate *g)
{
    HOLD(&g->mu);
    return (struct lib_gate_counts){.verbs = g->n_verbs,
                                    .resets = g->n_resets,
                                    .waiting_verbs = g->waiting_verbs,
                                    .waiting_resets = g->waiting_resets};
}

/* --- cards in hand --- */

void lib_holds_init(struct lib_holds *hs)
{
    init_sync(&hs->mu, &hs->freed);
}

void lib_holds_done(struct lib_holds *hs)
{
    (void)pthread_cond_destroy(&hs->freed);
    (void)pthread_mutex_destroy(&hs->mu);
}

bool lib_hold_try(struct lib_hold *h)
{
    if (h->by)
        return false;
    h->by = gpu_activity_mine();
    return true;
}

int lib_hold_take(struct lib_holds *hs, struct lib_hold *h, const char *uuid, int64_t limit_ms,
                  struct err *e)
{
    const int64_t limit = limit_ms ? limit_ms : of_hardware.call_ms;
    const int64_t came = now_ms();
    int rc = 0;
    h->waiting++;
    while (rc == 0 && !lib_hold_try(h)) {
        const char *call = NULL;
        int64_t began = call_began(h->by, &call);
        int64_t deadline = earlier(came, began) + limit;
        if (now_ms() < deadline) {
            wait_until(&hs->freed, &hs->mu, deadline);
            continue;
        }
        auto_free char *what = xasprintf("card %s is in use by another thread", uuid);
        rc = refuse(what, call, began, e);
    }
    h->waiting--;
    return rc;
}

void lib_hold_give(struct lib_holds *hs, struct lib_hold *h)
{
    assert(h->by == gpu_activity_mine()); /* who took it gives it back */
    h->by = NULL;
    (void)pthread_cond_broadcast(&hs->freed);
}

int lib_hold_refuse(const struct lib_hold *h, const char *what, struct err *e)
{
    const char *call = NULL;
    assert(h->by);
    int64_t began = call_began(h->by, &call);
    return refuse(what, call, began, e);
}
