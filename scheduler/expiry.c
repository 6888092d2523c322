/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/expiry.h"

#include <assert.h>

#include "base/xalloc.h"

struct expiry {
    struct view *view;
    struct controller *workers; /* NULL once handed over */
    struct wq *queue;           /* of pods' uids, as names */
};

static void on_assumed(void *arg, const char *uid, int64_t in_ms)
{
    struct expiry *x = arg;
    wq_add_after(x->queue, &(struct object_key){.name = uid}, in_ms);
}

/* The reconciler. */
static int work(void *self, struct scope *s, const struct object_key *k, struct reconcile_result *r,
                struct err *e)
{
    const struct expiry *x = self;
    (void)s;
    (void)e;
    r->requeue_after_ms = view_expire(x->view, k->name);
    return 0;
}

struct expiry *expiry_new(struct view *v, const struct clock *clk)
{
    struct expiry *x = xmalloc(sizeof(*x));
    *x = (struct expiry){.view = v};
    x->workers = controller_new("expiry", work, x, /* workers= */ 1, clk);
    x->queue = controller_queue(x->workers);
    view_on_expiry(v, on_assumed, x);
    return x;
}

struct controller *expiry_workers(struct expiry *x)
{
    assert(x->workers);
    return TAKE(x->workers);
}

struct expiry *expiry_free(struct expiry *x)
{
    if (!x)
        return NULL;
    view_on_expiry(x->view, NULL, NULL);
    (void)controller_free(x->workers);
    free(x);
    return NULL;
}
