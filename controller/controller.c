/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/controller.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "service/metrics.h"

/* One watch: the argument of an informer's handler. */
struct watch {
    struct controller *controller;
    predicate_fn *keep;
    map_fn *map;
};

enum result {
    RESULT_SUCCESS,
    RESULT_REQUEUE_AFTER,
    RESULT_REQUEUE,
    RESULT_ERROR,
    RESULT_TERMINAL,
    RESULTS,
};

/* Series of a registry; all NULL without metrics. */
struct controller_metrics {
    struct metric_series *results[RESULTS], *errors, *terminal_errors, *active, *time;
    struct metric_series *adds, *retries, *wait, *work, *depth, *unfinished;
};

/* Built by one thread, then immutable except the queue and the metrics, which any thread may
 * use. */
struct controller {
    const char *name;
    reconcile_fn *fn;
    void *self;
    int workers;
    const struct clock *clk;
    struct wq *queue;
    struct watch **watches;
    size_t watch_count;
    struct expectations *awaited[CONTROLLER_MAX_AWAITED];
    size_t n_awaited;
    struct controller_metrics metrics;
    struct heartbeat **beats;     /* one for each worker; NULL: no heartbeats */
    struct heartbeat *queue_beat; /* NULL: no heartbeats */
};

struct controller *controller_new(const char *name, reconcile_fn *fn, void *self, int workers,
                                  const struct clock *clk)
{
    assert(name && fn && workers >= 1 && clk);
    struct controller *c = xmalloc(sizeof(*c));
    c->name = name;
    c->fn = fn;
    c->self = self;
    c->workers = workers;
    c->clk = clk;
    c->queue = wq_new(name, clk);
    return c;
}

struct controller *controller_free(struct controller *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->watch_count; i++)
        free(c->watches[i]);
    free(c->watches);
    free(c->beats);
    (void)wq_free(c->queue);
    free(c);
    return NULL;
}

struct wq *controller_queue(struct controller *c)
{
    return c->queue;
}

const char *controller_name(const struct controller *c)
{
    return c->name;
}

/* Watches */

static void enqueue(const struct watch *w, const struct object *o)
{
    if (!o)
        return;
    const struct object_key k = object_key(o);
    if (w->map)
        w->map(w->controller->self, o, w->controller->queue);
    else
        wq_add(w->controller->queue, &k);
}

static void on_change(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    (void)stale; /* level-based: a missed intermediate state does not matter */
    const struct watch *w = arg;
    if (w->keep && !w->keep(before, after))
        return;
    /* The keys that a mapped object concerned before may need a reconcile too. */
    if (w->map || !after)
        enqueue(w, before);
    enqueue(w, after);
}

void controller_watch(struct controller *c, struct informer *inf, predicate_fn *keep, map_fn *map)
{
    struct watch *w = xmalloc(sizeof(*w));
    *w = (struct watch){.controller = c, .keep = keep, .map = map};
    *XPUSH(c->watches, c->watch_count) = w;
    informer_add_handler(inf, on_change, w);
}

void controller_await_writes(struct controller *c, struct expectations *x)
{
    assert(c->n_awaited < CONTROLLER_MAX_AWAITED);
    c->awaited[c->n_awaited++] = x;
}

bool predicate_generation(const struct object *before, const struct object *after)
{
    if (!before || !after)
        return true;
    return object_generation(before) != object_generation(after) ||
           object_is_deleting(before) != object_is_deleting(after) ||
           strcmp(object_uid(before), object_uid(after)) != 0;
}

/* Metrics, with the names of controller-runtime and client-go */

static void on_queue_event(void *arg, enum wq_event event, int64_t ms)
{
    const struct controller_metrics *m = arg;
    switch (event) {
    case WQ_ADDED:
        metric_add(m->adds, 1);
        break;
    case WQ_RETRIED:
        metric_add(m->retries, 1);
        break;
    case WQ_WAITED:
        metric_observe(m->wait, (double)ms / 1000);
        break;
    case WQ_WORKED:
        metric_observe(m->work, (double)ms / 1000);
        break;
    }
}

static void collect_queue(void *arg)
{
    struct controller *c = arg;
    const struct wq_stats st = wq_stats(c->queue);
    metric_set(c->metrics.depth, st.queued);
    metric_set(c->metrics.unfinished, st.longest_work_ms / 1000);
}

static void register_queue_metrics(struct controller *c, struct metrics *m)
{
    static const double bounds_s[] = {0.001, 0.01, 0.1, 1, 10, 100, 1000};
    const char *const *labels = METRIC_LABELS("name");
    struct controller_metrics *own = &c->metrics;
    own->adds =
        METRIC_WITH(metrics_counter(m, "workqueue_adds_total", "Keys added.", labels), c->name);
    own->retries =
        METRIC_WITH(metrics_counter(m, "workqueue_retries_total", "Rate-limited adds.", labels),
                    c->name);
    own->depth = METRIC_WITH(metrics_gauge(m, "workqueue_depth", "Keys queued.", labels), c->name);
    own->unfinished =
        METRIC_WITH(metrics_gauge(m, "workqueue_longest_running_processor_seconds",
                                  "Age of the longest reconcile in progress.", labels),
                    c->name);
    own->wait =
        METRIC_WITH(metrics_histogram(m, "workqueue_queue_duration_seconds",
                                      "Time from when a key is due until a worker takes it.",
                                      labels, bounds_s, ARRAY_LEN(bounds_s)),
                    c->name);
    own->work =
        METRIC_WITH(metrics_histogram(m, "workqueue_work_duration_seconds",
                                      "Time from when a worker takes a key until it is done.",
                                      labels, bounds_s, ARRAY_LEN(bounds_s)),
                    c->name);
    wq_observe(c->queue, on_queue_event, own);
    metrics_on_collect(m, collect_queue, c);
}

void controller_register_metrics(struct controller *c, struct metrics *m)
{
    static const char *const results[RESULTS] = {"success", "requeue_after", "requeue", "error",
                                                 "terminal_error"};
    static const double bounds_s[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                      1,     2.5,  5,     10,   30,  60};
    const char *const *labels = METRIC_LABELS("controller");
    struct controller_metrics *own = &c->metrics;
    struct metric *total =
        metrics_counter(m, "controller_runtime_reconcile_total", "Reconciles by result.",
                        METRIC_LABELS("controller", "result"));
    for (size_t i = 0; i < RESULTS; i++)
        own->results[i] = METRIC_WITH(total, c->name, results[i]);
    own->errors = METRIC_WITH(metrics_counter(m, "controller_runtime_reconcile_errors_total",
                                              "Reconciles that failed.", labels),
                              c->name);
    own->terminal_errors =
        METRIC_WITH(metrics_counter(m, "controller_runtime_terminal_reconcile_errors_total",
                                    "Reconciles that failed and are not retried.", labels),
                    c->name);
    own->active = METRIC_WITH(metrics_gauge(m, "controller_runtime_active_workers",
                                            "Reconciles in progress.", labels),
                              c->name);
    own->time = METRIC_WITH(metrics_histogram(m, "controller_runtime_reconcile_time_seconds",
                                              "Time of a reconcile.", labels, bounds_s,
                                              ARRAY_LEN(bounds_s)),
                            c->name);
    metric_set(METRIC_WITH(metrics_gauge(m, "controller_runtime_max_concurrent_reconciles",
                                         "Workers.", labels),
                           c->name),
               c->workers);
    register_queue_metrics(c, m);
}

static void count_result(const struct controller *c, enum result result, int64_t took_ms)
{
    const struct controller_metrics *m = &c->metrics;
    if (!m->time)
        return;
    metric_add(m->results[result], 1);
    metric_add(m->errors, result == RESULT_ERROR || result == RESULT_TERMINAL);
    metric_add(m->terminal_errors, result == RESULT_TERMINAL);
    metric_observe(m->time, (double)took_ms / 1000);
}

static void count_active(const struct controller *c, int64_t n)
{
    if (c->metrics.active)
        metric_add(c->metrics.active, n);
}

/* Reconciling */

/* Only the reconciler's own ERR_TERMINAL is final. ERR_INVALID is not: a server that refuses may
 * accept later (while a CRD was being replaced), and a certificate may have been read
 * half-written. */
static enum result failure_of(const struct err *e)
{
    if (e->kind == ERR_TERMINAL)
        return RESULT_TERMINAL;
    return e->kind == ERR_CONFLICT ? RESULT_REQUEUE : RESULT_ERROR;
}

static enum result judge(int rc, const struct reconcile_result *r, const struct err *e)
{
    if (rc < 0)
        return failure_of(e);
    return r->requeue_after_ms > 0 ? RESULT_REQUEUE_AFTER : RESULT_SUCCESS;
}

static void log_failure(const struct controller *c, const struct object_key *k, enum result result,
                        const struct err *e)
{
    auto_free char *object = object_key_text(k);
    log_error(result == RESULT_TERMINAL ? "Could not reconcile, not retried"
                                        : "Could not reconcile",
              kv("controller", c->name), kv("object", object), kv_err(e));
}

/* controller-runtime's switch over the result. A conflict is the ordinary consequence of a lagging
 * cache, so it counts neither as an error nor as a line in the log. */
static void settle_key(struct controller *c, const struct object_key *k, enum result result,
                       const struct reconcile_result *r, const struct err *e)
{
    switch (result) {
    case RESULT_ERROR:
        if (e->kind != ERR_CANCELED)
            log_failure(c, k, result, e);
        wq_add_rate_limited(c->queue, k);
        return;
    case RESULT_REQUEUE:
        wq_add_rate_limited(c->queue, k);
        return;
    case RESULT_TERMINAL:
        log_failure(c, k, result, e);
        wq_forget(c->queue, k);
        return;
    case RESULT_REQUEUE_AFTER:
        wq_forget(c->queue, k);
        wq_add_after(c->queue, k, r->requeue_after_ms);
        return;
    case RESULT_SUCCESS:
    case RESULTS:
        wq_forget(c->queue, k);
        return;
    }
}

/* False: a write for the key is not in the caches yet, and a reconcile would plan with the state
 * before it. */
static bool has_seen_writes(const struct controller *c, const struct object_key *k)
{
    bool seen = true;
    for (size_t i = 0; i < c->n_awaited; i++)
        seen &= expectations_met(c->awaited[i], k);
    return seen;
}

/* A reconcile makes as many requests as there are objects, and a slow server may take a minute for
 * each; without a bound of its own it would look hung. The next reconcile does what this one left
 * undone. */
static int reconcile_in_time(const struct controller *c, struct scope *s,
                             const struct object_key *k, struct reconcile_result *r, struct err *e)
{
    if (!has_seen_writes(c, k)) {
        r->requeue_after_ms = EXPECTATIONS_RECHECK_MS;
        return 0;
    }
    auto_scope struct scope *bounded = scope_new(s, CONTROLLER_RECONCILE_MS);
    return c->fn(c->self, bounded, k, r, e);
}

static void process(struct controller *c, struct scope *s, const struct object_key *k)
{
    auto_err struct err e = {0};
    struct reconcile_result r = {0};
    int64_t start_mono_ms = clock_mono_ms(c->clk);
    count_active(c, 1);
    int rc = reconcile_in_time(c, s, k, &r, &e);
    enum result result = judge(rc, &r, &e);
    count_active(c, -1);
    count_result(c, result, clock_mono_ms(c->clk) - start_mono_ms);
    settle_key(c, k, result, &r, &e);
    wq_done(c->queue, k);
}

bool controller_step(struct controller *c, struct scope *s)
{
    struct object_key k;
    if (!wq_try_get(c->queue, &k))
        return false;
    process(c, s, &k);
    return true;
}

/* Workers */

void controller_set_beats(struct controller *c, struct heartbeats *set)
{
    c->beats = xcalloc((size_t)c->workers, sizeof(struct heartbeat *));
    for (int i = 0; i < c->workers; i++) {
        auto_free char *name = xasprintf("%s/%d", c->name, i);
        c->beats[i] = heartbeat_add(set, name, CONTROLLER_HANG_MS);
    }
    auto_free char *queue = xasprintf("queue of %s", c->name);
    c->queue_beat = heartbeat_add(set, queue, CONTROLLER_UNTAKEN_MS);
}

bool controller_hangs(const struct controller *c)
{
    for (int i = 0; c->beats && i < c->workers; i++)
        if (heartbeat_is_stale(c->beats[i]))
            return true;
    return heartbeat_is_stale(c->queue_beat);
}

struct worker {
    struct controller *controller;
    struct scope *scope;
    int number;
    pthread_t thread;
};

static void *work(void *arg)
{
    const struct worker *w = arg;
    char name[16]; /* the length that the kernel keeps */
    (void)snprintf(name, sizeof(name), "%.11s/%d", w->controller->name, w->number);
    (void)pthread_setname_np(pthread_self(), name);
    struct object_key k;
    struct heartbeat *beat = w->controller->beats ? w->controller->beats[w->number] : NULL;
    while (wq_get(w->controller->queue, &k)) {
        heartbeat_busy(beat);
        process(w->controller, w->scope, &k);
        heartbeat_idle(beat);
    }
    return NULL;
}

/* Returns 0, or the errno of the first thread that did not start; *ret_started counts the started
 * ones. */
static int start_workers(struct worker *workers, struct controller *c, struct scope *s,
                         int *ret_started)
{
    int rc = 0;
    int i = 0;
    for (; i < c->workers && rc == 0; i++) {
        workers[i] = (struct worker){.controller = c, .scope = s, .number = i};
        rc = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    *ret_started = rc == 0 ? i : i - 1;
    return rc;
}

int controller_run(struct controller *c, struct scope *s, struct err *e)
{
    auto_free struct worker *workers = xcalloc((size_t)c->workers, sizeof(*workers));
    int started;
    wq_set_beat(c->queue, c->queue_beat);
    int failed = start_workers(workers, c, s, &started);
    if (!failed) {
        log_info("Started controller", kv("controller", c->name), kv_int("workers", c->workers));
        (void)scope_wait_ms(s, -1);
    }
    wq_shut_down_now(c->queue);
    for (int i = 0; i < started; i++)
        (void)pthread_join(workers[i].thread, NULL);
    log_info("Stopped controller", kv("controller", c->name));
    return failed ? err_set_errno(e, failed, "starting the workers of %s", c->name)
                  : scope_check(s, e);
}
