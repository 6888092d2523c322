/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/extender.h"

#include <jansson.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "scheduler/preempt.h"
#include "service/http_channel.h"

enum { OK = 200, BAD_REQUEST = 400, UNAVAILABLE = 503 };

/* The ends that a question to /filter can have. */
enum outcome { CHOSEN, REFUSED, INVALID, UNREADABLE, N_OUTCOMES };
static const char *const outcome_names[N_OUTCOMES] = {"chosen", "refused", "invalid", "unreadable"};

struct extender {
    struct view *view;
    struct binder *binder;
    struct wake *wake;
    extender_ready_fn *is_ready;
    const void *arg;
    struct metric_series *filters[N_OUTCOMES]; /* NULL: not counted */
};

static void give_error(struct http_reply *reply_take, int status, const struct err *e)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_BODY_BYTES);
    error_result_write(err_msg(e), &body);
    http_reply_give(reply_take, status, &body);
}

/* Before the caches have all pods, cards look empty that are full. True: the question is answered. */
static bool is_too_early(const struct extender *x, struct http_reply *reply_take)
{
    auto_err struct err e = {0};
    if (x->is_ready(x->arg))
        return false;
    (void)err_set(&e, ERR_UNAVAILABLE, "the scheduler's caches are not synced yet");
    give_error(reply_take, UNAVAILABLE, &e);
    return true;
}

/* --- Filter --- */

static enum outcome choose(struct extender *x, const struct filter_args *a, struct choice *ret)
{
    auto_pod_ask struct pod_ask ask = {0};
    auto_err struct err e = {0};
    if (pod_ask_of(a->pod, &ask, &e) < 0) {
        choice_refuse_all(a->names, a->n_names, &e, ret);
        return INVALID;
    }
    wake_begin(x->wake);
    choice_make(x->view, &ask, a->names, a->n_names, ret);
    wake_end(x->wake, !ret->n_kept);
    return ret->n_kept ? CHOSEN : REFUSED;
}

static void give_choice(struct http_reply *reply_take, const struct choice *c)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_BODY_BYTES);
    filter_result_write(c, &body);
    if (body.overflow) {
        sb_reset(&body);
        body.overflow = false;
        error_result_write("the reasons of all the nodes are too long for one answer", &body);
    }
    http_reply_give(reply_take, OK, &body);
}

static void count(const struct extender *x, enum outcome outcome)
{
    if (x->filters[outcome])
        metric_add(x->filters[outcome], 1);
}

static void on_filter(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    struct extender *x = arg;
    auto_filter_args struct filter_args args = {0};
    auto_choice struct choice choice = {0};
    auto_err struct err e = {0};
    if (is_too_early(x, reply_take))
        return;
    if (filter_args_parse(body, len, &args, &e) < 0) {
        count(x, UNREADABLE);
        log_warn("Could not read a question of kube-scheduler", kv_err(&e));
        give_error(reply_take, e.kind == ERR_INVALID ? OK : BAD_REQUEST, &e);
        return;
    }
    count(x, choose(x, &args, &choice));
    give_choice(reply_take, &choice);
}

/* --- Bind --- */

static void on_bound(void *arg, const char *error)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_BODY_BYTES);
    error_result_write(error, &body);
    http_reply_give(arg, OK, &body);
}

static void on_bind(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    struct extender *x = arg;
    auto_bind_args struct bind_args args = {0};
    auto_err struct err e = {0};
    if (bind_args_parse(body, len, &args, &e) < 0)
        give_error(reply_take, BAD_REQUEST, &e);
    else
        binder_add(x->binder, &args, on_bound, reply_take);
}

/* --- Preempt --- */

static void on_preempt(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    const struct extender *x = arg;
    auto_json json_t *answer = NULL;
    auto_err struct err e = {0};
    auto_sb struct sb out = SB_INIT(HTTP_MAX_BODY_BYTES);
    if (is_too_early(x, reply_take))
        return;
    if (preempt_answer(x->view, body, len, &answer, &e) < 0) {
        log_warn("Could not answer a question for victims", kv_err(&e));
        give_error(reply_take, BAD_REQUEST, &e);
        return;
    }
    auto_free char *text = json_dumps(answer, JSON_COMPACT);
    sb_add(&out, text);
    http_reply_give(reply_take, OK, &out);
}

/* --- Life --- */

struct extender *extender_new(const struct extender_opts *o)
{
    struct metrics *m = o->metrics;
    struct extender *x = xmalloc(sizeof(*x));
    *x = (struct extender){.view = o->view,
                           .binder = o->binder,
                           .wake = o->wake,
                           .is_ready = o->is_ready,
                           .arg = o->arg};
    if (!m)
        return x;
    struct metric *filters =
        metrics_counter(m, "cleave_scheduler_filters_total",
                        "Pods for which a node was asked, by what became of it.",
                        METRIC_LABELS("result"));
    for (size_t i = 0; i < N_OUTCOMES; i++)
        x->filters[i] = METRIC_WITH(filters, outcome_names[i]);
    return x;
}

void extender_routes(struct extender *x, struct http_route *ret)
{
    ret[0] = (struct http_route){.path = "/filter", .post = on_filter, .arg = x};
    ret[1] = (struct http_route){.path = "/bind", .post = on_bind, .arg = x};
    ret[2] = (struct http_route){.path = "/preempt", .post = on_preempt, .arg = x};
}

struct extender *extender_free(struct extender *x)
{
    free(x);
    return NULL;
}
