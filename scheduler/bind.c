/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/bind.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/strmap.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "scheduler/choice.h"

enum { WORKERS = 8 };

/* kube-scheduler waits for 5 s (config/scheduler/configuration.yaml), and may choose another node then. */
enum { BIND_MS = 4000, LOOK_UP_MS = 500 };

struct order {
    struct bind_args args;
    binder_done_fn *done;
    void *arg;
    int64_t came_ms;
    int64_t api_us; /* of its time so far, what the API server took */
};

struct binder {
    struct kc *kc;
    struct view *view;
    const struct clock *clk;
    struct controller *workers; /* NULL once handed over */
    struct wq *queue;
    struct metric *binds; /* NULL: nothing is measured */
    struct metric_series *own_time, *api_time;
    pthread_mutex_t mu;
    struct strmap *orders; /* by "namespace/name": struct order */
};

/* --- Orders --- */

/* error NULL: it is bound. Frees the order. */
static void finish(struct order *o, const char *error)
{
    o->done(o->arg, error);
    bind_args_done(&o->args);
    free(o);
}

void binder_add(struct binder *b, struct bind_args *args_take, binder_done_fn *done, void *arg)
{
    struct order *o = xmalloc(sizeof(*o));
    *o = (struct order){*args_take, done, arg, clock_mono_ms(b->clk), 0};
    *args_take = (struct bind_args){0};
    const struct object_key key = {o->args.ns, o->args.name};
    auto_free char *text = object_key_text(&key);
    struct order *before = NULL;
    {
        HOLD(&b->mu);
        before = strmap_put(b->orders, text, o);
        wq_add(b->queue, &key);
    }
    if (before)
        finish(before, "the pod is asked to be bound once more");
}

static struct order *take_order(struct binder *b, const struct object_key *k)
{
    auto_free char *text = object_key_text(k);
    HOLD(&b->mu);
    return strmap_remove(b->orders, text);
}

/* --- One Binding --- */

static struct kc_target pod_of(const struct bind_args *a)
{
    return (struct kc_target){.res = pod_shares_type.resource, .ns = a->ns, .name = a->name};
}

static int read_pod(const struct binder *b, struct scope *s, struct order *o, json_t **ret,
                    struct err *e)
{
    const struct bind_args *a = &o->args;
    const struct kc_target t = pod_of(a);
    int64_t begin_us = clock_mono_us(b->clk);
    int rc = kc_get(b->kc, s, &t, ret, e);
    o->api_us += clock_mono_us(b->clk) - begin_us;
    TRY(rc);
    const char *uid = JX_STR_AT(*ret, "metadata", "uid");
    if (uid && strcmp(uid, a->uid) == 0)
        return 0;
    return err_set(e, ERR_CONFLICT, "pod %s/%s is another one by now", a->ns, a->name);
}

static int write_binding(const struct binder *b, struct scope *s, struct order *o, json_t *body,
                         struct err *e)
{
    struct kc_target t = pod_of(&o->args);
    t.subresource = "binding";
    int64_t begin_us = clock_mono_us(b->clk);
    int rc = kc_create(b->kc, s, &t, &(struct kc_write){.body = body}, /* ret_obj= */ NULL, e);
    o->api_us += clock_mono_us(b->clk) - begin_us;
    return rc;
}

/* The annotations of the Binding, as JSON text; NULL: none. */
static int annotations_of(const struct binder *b, struct scope *s, struct order *o, char **ret,
                          struct err *e)
{
    const struct bind_args *a = &o->args;
    auto_json json_t *pod = NULL;
    auto_pod_ask struct pod_ask ask = {0};
    view_begin(b->view, a->uid);
    *ret = view_confirm(b->view, a->uid, a->node);
    view_end(b->view);
    if (*ret)
        return 0;
    TRY(read_pod(b, s, o, &pod, e));
    TRY(pod_ask_of(pod, &ask, e));
    TRY(choice_renew(b->view, &ask, a->node, ret, e));
    return 0;
}

static json_t *binding_of(const struct bind_args *a, const char *annotations)
{
    json_t *binding =
        json_pack("{s:s,s:s,s:{s:s,s:s,s:s},s:{s:s,s:s,s:s}}", "apiVersion", "v1", "kind",
                  "Binding", "metadata", "name", a->name, "namespace", a->ns, "uid", a->uid,
                  "target", "apiVersion", "v1", "kind", "Node", "name", a->node);
    if (binding && annotations)
        (void)json_object_set_new(json_object_get(binding, "metadata"), "annotations",
                                  json_loads(annotations, 0, NULL));
    return binding;
}

/* True when the pod is as its Binding would have made it. */
static bool is_bound(const json_t *pod, const struct bind_args *a, const char *annotations)
{
    const char *node = JX_STR_AT(pod, "spec", "nodeName");
    const char *has = JX_STR_AT(pod, "metadata", "annotations", ALLOCATION_ANNOTATION);
    auto_json json_t *want = annotations ? json_loads(annotations, 0, NULL) : NULL;
    const char *record = JX_STR_AT(want, ALLOCATION_ANNOTATION);
    if (!node || strcmp(node, a->node) != 0)
        return false;
    return !record || (has && strcmp(has, record) == 0);
}

/* The pod is certainly not bound by this write. */
static bool is_definite(const struct err *e)
{
    return e->kind == ERR_FORBIDDEN || e->kind == ERR_INVALID || e->kind == ERR_NOT_FOUND ||
           e->kind == ERR_CONFLICT;
}

/* A write may have happened although its answer is an error, or may still happen. */
static int look_up(const struct binder *b, struct scope *s, struct order *o,
                   const char *annotations, struct err *e)
{
    const struct bind_args *a = &o->args;
    auto_json json_t *pod = NULL;
    auto_err struct err why = {0};
    if (read_pod(b, s, o, &pod, &why) == 0 && is_bound(pod, a, annotations)) {
        err_clear(e);
        return 0;
    }
    view_begin(b->view, a->uid);
    if (is_definite(e))
        view_forget(b->view, a->uid, a->node);
    else
        view_doubt(b->view, a->uid, a->node);
    view_end(b->view);
    return -(int)e->kind;
}

static int bind_pod(const struct binder *b, struct scope *s, struct order *o, int64_t left_ms,
                    struct err *e)
{
    auto_free char *annotations = NULL;
    auto_scope struct scope *brief = scope_new(s, left_ms);
    TRY(annotations_of(b, brief, o, &annotations, e));
    auto_json json_t *body = binding_of(&o->args, annotations);
    if (!body)
        return err_set(e, ERR_INVALID, "a name of the binding is no UTF-8");
    if (write_binding(b, brief, o, body, e) == 0)
        return 0;
    auto_scope struct scope *after = scope_new(s, LOOK_UP_MS);
    return look_up(b, after, o, annotations, e);
}

static void count(const struct binder *b, int rc)
{
    const char *result = rc == 0 ? "Success" : err_kind_name((enum err_kind) - rc);
    if (b->binds)
        metric_add(METRIC_WITH(b->binds, result), 1);
}

static int bind_measured(const struct binder *b, struct scope *s, struct order *o, int64_t left_ms,
                         struct err *e)
{
    int64_t begin_us = clock_mono_us(b->clk);
    int rc = bind_pod(b, s, o, left_ms, e);
    int64_t took_us = clock_mono_us(b->clk) - begin_us;
    if (!b->binds)
        return rc;
    metric_observe(b->own_time, (double)(took_us - o->api_us) / 1e6);
    metric_observe(b->api_time, (double)o->api_us / 1e6);
    return rc;
}

/* The reconciler. kube-scheduler tries a failed Binding again, from the choice of a node on. */
static int work(void *self, struct scope *s, const struct object_key *k, struct reconcile_result *r,
                struct err *e)
{
    struct binder *b = self;
    auto_err struct err why = {0};
    struct order *o = take_order(b, k);
    (void)r;
    (void)e;
    if (!o)
        return 0;
    int64_t left_ms = o->came_ms + BIND_MS - clock_mono_ms(b->clk);
    int rc = left_ms > 0 ? bind_measured(b, s, o, left_ms, &why)
                         : err_set(&why, ERR_TIMEOUT, "the pod waited too long for its Binding");
    count(b, rc);
    if (rc < 0)
        log_warn("A pod was not bound", kv("namespace", o->args.ns), kv("pod", o->args.name),
                 kv("node", o->args.node), kv_err(&why));
    finish(o, rc < 0 ? err_msg(&why) : NULL);
    return 0;
}

/* --- Life --- */

static void register_metrics(struct binder *b, struct metrics *m)
{
    static const double seconds[] = {0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                     0.025,   0.05,   0.1,    0.25,   0.5,   1,     2.5,   5};
    controller_register_metrics(b->workers, m);
    b->binds = metrics_counter(m, "cleave_scheduler_binds_total", "Pods that were to be bound.",
                               METRIC_LABELS("result"));
    struct metric *times =
        metrics_histogram(m, "cleave_scheduler_bind_seconds", "Times of Bindings, by whose it was.",
                          METRIC_LABELS("of"), seconds, ARRAY_LEN(seconds));
    b->own_time = METRIC_WITH(times, "scheduler");
    b->api_time = METRIC_WITH(times, "api-server");
}

struct binder *binder_new(const struct binder_opts *o)
{
    struct binder *b = xmalloc(sizeof(*b));
    *b = (struct binder){.kc = o->kc, .view = o->view, .clk = o->clk, .orders = strmap_new()};
    (void)pthread_mutex_init(&b->mu, NULL);
    b->workers = controller_new("bind", work, b, WORKERS, o->clk);
    b->queue = controller_queue(b->workers);
    if (o->metrics)
        register_metrics(b, o->metrics);
    return b;
}

struct controller *binder_workers(struct binder *b)
{
    assert(b->workers);
    return TAKE(b->workers);
}

struct binder *binder_free(struct binder *b)
{
    size_t pos = 0;
    const char *key;
    void *order;
    if (!b)
        return NULL;
    while (strmap_next(b->orders, &pos, &key, &order))
        finish(order, "the scheduler is stopping");
    (void)controller_free(b->workers);
    (void)strmap_free(b->orders);
    (void)pthread_mutex_destroy(&b->mu);
    free(b);
    return NULL;
}
