/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/manager.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"

#define SYNC_TIMEOUT_MS (2 * 60 * 1000) /* controller-runtime: CacheSyncTimeout */

/* One thread. */
struct stage_thread {
    struct manager *manager;
    struct stage *stage;
    char name[16]; /* the length that the kernel keeps */
    service_fn *fn;
    void *arg;
    pthread_t thread;
};

/* Threads that start and stop together, under one scope. */
struct stage {
    struct stage_thread *threads;
    size_t count, started;
    struct scope *scope;
};

/*
 * Set up by one thread, which then runs it. Other threads touch the flags and, under mu, the
 * failure. Scopes: `life` is a child of the caller's and ends with it or with the first failure.
 * The controllers' scope is a child of life, so they stop at once. Election and infrastructure have
 * roots of their own, because releasing the lease and writing the last Events still need them.
 */
struct manager {
    struct manager_opts opts;
    struct informer **informers;
    size_t informer_count;
    struct controller **controllers;
    size_t controller_count;
    struct elector *elector;
    struct recorder *recorder;
    service_fn *on_lead; /* NULL: nothing is done */
    void *on_lead_arg;
    struct stage infra, election, work;
    struct scope *life; /* while running */
    atomic_bool ready, leading;
    pthread_mutex_t mu;
    struct err failure; /* guarded by mu: the first */
};

struct manager *manager_new(const struct manager_opts *opts)
{
    struct manager *m = xmalloc(sizeof(*m));
    if (opts)
        m->opts = *opts;
    if (!m->opts.sync_timeout_ms)
        m->opts.sync_timeout_ms = SYNC_TIMEOUT_MS;
    (void)pthread_mutex_init(&m->mu, NULL);
    return m;
}

/* Ownership */

static void add_thread(struct manager *m, struct stage *stage, const char *prefix, const char *name,
                       service_fn *fn, void *arg)
{
    struct stage_thread *p = XPUSH(stage->threads, stage->count);
    p->manager = m;
    p->stage = stage;
    p->fn = fn;
    p->arg = arg;
    (void)snprintf(p->name, sizeof(p->name), "%.4s%.11s", prefix, name);
}

static int run_informer(void *arg, struct scope *s, struct err *e)
{
    return informer_run(arg, s, e);
}

static int run_controller(void *arg, struct scope *s, struct err *e)
{
    return controller_run(arg, s, e);
}

static int run_elector(void *arg, struct scope *s, struct err *e)
{
    return elector_run(arg, s, e);
}

static int run_recorder(void *arg, struct scope *s, struct err *e)
{
    return recorder_run(arg, s, e);
}

void manager_add_informer(struct manager *m, struct informer *inf_take)
{
    *XPUSH(m->informers, m->informer_count) = inf_take;
    add_thread(m, &m->infra, "inf-", informer_options(inf_take)->type->resource->plural,
               run_informer, inf_take);
}

void manager_add_controller(struct manager *m, struct controller *c_take)
{
    *XPUSH(m->controllers, m->controller_count) = c_take;
    add_thread(m, &m->work, "ctl-", controller_name(c_take), run_controller, c_take);
}

void manager_set_elector(struct manager *m, struct elector *el_take)
{
    assert(!m->elector);
    m->elector = el_take;
    add_thread(m, &m->election, "", "elector", run_elector, el_take);
}

void manager_set_recorder(struct manager *m, struct recorder *r_take)
{
    assert(!m->recorder);
    m->recorder = r_take;
    add_thread(m, &m->infra, "", "recorder", run_recorder, r_take);
}

void manager_set_on_lead(struct manager *m, service_fn *fn, void *arg)
{
    assert(!m->on_lead);
    m->on_lead = fn;
    m->on_lead_arg = arg;
}

void manager_add_service(struct manager *m, const char *name, service_fn *fn, void *arg)
{
    add_thread(m, &m->infra, "", name, fn, arg);
}

/* One attempt to renew ends with the renew deadline, at most five minutes. */
enum { ELECTOR_ATTEMPT_MS = 6 * 60 * 1000 };

static bool works(void *arg)
{
    const struct manager *m = arg;
    for (size_t i = 0; i < m->controller_count; i++)
        if (controller_hangs(m->controllers[i]))
            return false;
    return true;
}

void manager_set_beats(struct manager *m, struct heartbeats *set)
{
    for (size_t i = 0; i < m->informer_count; i++) {
        const char *plural = informer_options(m->informers[i])->type->resource->plural;
        auto_free char *name = xasprintf("informer of %s", plural);
        informer_set_beat(m->informers[i], heartbeat_add(set, name, INFORMER_CALL_MS));
    }
    for (size_t i = 0; i < m->controller_count; i++)
        controller_set_beats(m->controllers[i], set);
    if (!m->elector)
        return;
    elector_set_beat(m->elector, heartbeat_add(set, "elector", ELECTOR_ATTEMPT_MS));
    elector_set_check(m->elector, works, m);
}

/* Threads */

static void fail(struct manager *m, struct err *e)
{
    HOLD(&m->mu);
    if (!m->failure.kind)
        (void)err_move(&m->failure, e);
    scope_cancel(m->life);
}

static void *run_thread(void *arg)
{
    struct stage_thread *p = arg;
    auto_err struct err e = {0};
    (void)pthread_setname_np(pthread_self(), p->name);
    int rc = p->fn(p->arg, p->stage->scope, &e);
    /* A thread that ends before its scope does ends the manager. */
    if (scope_is_canceled(p->stage->scope))
        return NULL;
    if (rc == 0)
        (void)err_set(&e, ERR_UNAVAILABLE, "%s ended by itself", p->name);
    fail(p->manager, &e);
    return NULL;
}

static void stage_start(struct manager *m, struct stage *stage, struct scope *parent)
{
    stage->scope = scope_new(parent, -1);
    for (; stage->started < stage->count; stage->started++) {
        struct stage_thread *p = &stage->threads[stage->started];
        int rc = pthread_create(&p->thread, NULL, run_thread, p);
        if (rc != 0) {
            auto_err struct err e = {0};
            (void)err_set_errno(&e, rc, "starting the thread %s", p->name);
            fail(m, &e);
            return;
        }
    }
}

static void stage_stop(struct stage *stage)
{
    if (!stage->scope)
        return;
    scope_cancel(stage->scope);
    for (size_t i = 0; i < stage->started; i++)
        (void)pthread_join(stage->threads[i].thread, NULL);
    stage->started = 0;
    stage->scope = scope_free(stage->scope);
}

/* The run */

static int wait_synced(struct manager *m, struct err *e)
{
    auto_scope struct scope *s = scope_new(m->life, m->opts.sync_timeout_ms);
    for (size_t i = 0; i < m->informer_count; i++)
        TRY(informer_wait_synced(m->informers[i], s, e));
    atomic_store(&m->ready, true);
    log_info("Synced caches", kv_int("informers", m->informer_count));
    return 0;
}

static int wait_leader(struct manager *m, struct err *e)
{
    if (!m->elector)
        return 0;
    stage_start(m, &m->election, NULL);
    TRY(elector_wait_leader(m->elector, m->life, e));
    return m->on_lead ? m->on_lead(m->on_lead_arg, m->life, e) : 0;
}

static int live(struct manager *m, struct err *e)
{
    stage_start(m, &m->infra, NULL);
    TRY(wait_synced(m, e));
    TRY(wait_leader(m, e));
    atomic_store(&m->leading, true);
    stage_start(m, &m->work, m->life);
    (void)scope_wait_ms(m->life, -1);
    return 0;
}

static void stop(struct manager *m)
{
    atomic_store(&m->ready, false);
    stage_stop(&m->work);
    atomic_store(&m->leading, false);
    stage_stop(&m->election);
    stage_stop(&m->infra);
}

/* The first failure is the result even if the caller's scope has ended since. Without a failure,
 * the end of the caller's scope is a success. */
static int result_of_run(struct manager *m, const struct scope *s, int rc, struct err *e)
{
    HOLD(&m->mu);
    if (m->failure.kind) {
        if (e)
            err_clear(e);
        return err_move(e, &m->failure);
    }
    if (rc == 0 || scope_left_ms(s) > 0)
        return rc;
    if (e)
        err_clear(e);
    return 0;
}

int manager_run(struct manager *m, struct scope *s, struct err *e)
{
    auto_scope struct scope *life = scope_new(s, -1);
    m->life = life;
    int rc = live(m, e);
    stop(m);
    m->life = NULL;
    return result_of_run(m, s, rc, e);
}

bool manager_is_ready(const struct manager *m)
{
    return atomic_load(&m->ready);
}

bool manager_is_leading(const struct manager *m)
{
    return atomic_load(&m->leading);
}

struct manager *manager_free(struct manager *m)
{
    if (!m)
        return NULL;
    for (size_t i = 0; i < m->controller_count; i++)
        (void)controller_free(m->controllers[i]);
    (void)elector_free(m->elector);
    (void)recorder_free(m->recorder);
    for (size_t i = 0; i < m->informer_count; i++)
        (void)informer_free(m->informers[i]);
    free(m->informers);
    free(m->controllers);
    free(m->infra.threads);
    free(m->election.threads);
    free(m->work.threads);
    err_clear(&m->failure);
    (void)pthread_mutex_destroy(&m->mu);
    free(m);
    return NULL;
}
