/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/wake.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "scheduler/node_words.h"

#define MANAGER_SCHEDULER "cleave-scheduler"

struct wake {
    struct kc *kc;
    const struct clock *clk;
    struct controller *workers; /* NULL once handed over */
    struct wq *queue;
    struct metric_series *woken; /* NULL: not counted */
    atomic_bool refused;         /* a pod was, or may have been, since the last write */
    atomic_bool judging;         /* a pod is being judged */
};

static int tell_node(const struct wake *w, struct scope *s, const char *name, struct err *e)
{
    char now[RFC3339_BYTES];
    const struct kc_target t = {.res = node_words_type.resource, .name = name};
    rfc3339_format_micro(clock_wall_ms(w->clk), now);
    auto_json json_t *body =
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", WAKE_ANNOTATION, now);
    const struct kc_write write = {.body = body, .how = KC_MERGE, .manager = MANAGER_SCHEDULER};
    return kc_patch(w->kc, s, &t, &write, /* ret_obj= */ NULL, e);
}

/* The reconciler. The refused pods are tried again; those that are refused again say so. A pod that is
 * being judged is waited for: it may not have seen the room. */
static int work(void *self, struct scope *s, const struct object_key *k, struct reconcile_result *r,
                struct err *e)
{
    struct wake *w = self;
    bool judging = atomic_load(&w->judging); /* before the other: wake_end changes both */
    if (!atomic_exchange(&w->refused, false)) {
        r->requeue_after_ms = judging ? WAKE_DELAY_MS : 0;
        return 0;
    }
    int rc = tell_node(w, s, k->name, e);
    if (rc < 0)
        atomic_store(&w->refused, true);
    else if (w->woken)
        metric_add(w->woken, 1);
    if (rc != -ERR_NOT_FOUND)
        return rc;
    err_clear(e); /* it is not tried again; the next node with room is told */
    return 0;
}

struct wake *wake_new(struct kc *kc, const struct clock *clk, struct metrics *metrics)
{
    struct wake *w = xmalloc(sizeof(*w));
    *w = (struct wake){.kc = kc, .clk = clk, .refused = true};
    w->workers = controller_new("wake", work, w, /* workers= */ 1, clk);
    w->queue = controller_queue(w->workers);
    if (metrics) {
        controller_register_metrics(w->workers, metrics);
        w->woken = METRIC_WITH(metrics_counter(metrics, "cleave_scheduler_wakes_total",
                                               "Nodes that were told to have more room, so that "
                                               "refused pods are tried again.",
                                               /* labels= */ NULL));
    }
    return w;
}

struct controller *wake_workers(struct wake *w)
{
    assert(w->workers);
    return TAKE(w->workers);
}

void wake_begin(struct wake *w)
{
    atomic_store(&w->judging, true);
}

void wake_end(struct wake *w, bool refused)
{
    if (refused)
        atomic_store(&w->refused, true);
    atomic_store(&w->judging, false);
}

void wake_grown(void *arg, const char *node)
{
    struct wake *w = arg;
    if (atomic_load(&w->refused) || atomic_load(&w->judging))
        wq_add_after(w->queue, &(struct object_key){.name = node}, WAKE_DELAY_MS);
}

struct wake *wake_free(struct wake *w)
{
    if (!w)
        return NULL;
    (void)controller_free(w->workers);
    free(w);
    return NULL;
}
