/* SPDX-License-Identifier: Apache-2.0 */
#include "service/write_metrics.h"

#include "base/xalloc.h"

/* Immutable. */
struct counting {
    struct kc base;
    struct kc *inner;
    struct metric *writes;
};

static struct counting *counting_of(struct kc *c)
{
    return (struct counting *)(void *)c;
}

static struct kc *inner_of(struct kc *c)
{
    return counting_of(c)->inner;
}

/* Counts the result and returns rc, which is 0 or -kind. */
static int count_write(struct kc *c, const struct kc_target *t, int rc)
{
    auto_free char *resource = xasprintf("%s%s%s", t->res->plural, t->subresource ? "/" : "",
                                         t->subresource ? t->subresource : "");
    const char *result = rc == 0 ? "Success" : err_kind_name((enum err_kind) - rc);
    metric_add(METRIC_WITH(counting_of(c)->writes, resource, result), 1);
    return rc;
}

static int counting_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                        struct err *e)
{
    return kc_get(inner_of(c), s, t, ret_obj, e);
}

static int counting_list(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_list_opts *o, kc_item_fn *fn, void *arg,
                         char **ret_version, struct err *e)
{
    return kc_list_each(inner_of(c), s, t, o, fn, arg, ret_version, e);
}

static int counting_create(struct kc *c, struct scope *s, const struct kc_target *t,
                           const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return count_write(c, t, kc_create(inner_of(c), s, t, w, ret_obj, e));
}

static int counting_update(struct kc *c, struct scope *s, const struct kc_target *t,
                           const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return count_write(c, t, kc_update(inner_of(c), s, t, w, ret_obj, e));
}

static int counting_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return count_write(c, t, kc_patch(inner_of(c), s, t, w, ret_obj, e));
}

static int counting_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                           const struct kc_remove_opts *o, struct err *e)
{
    return count_write(c, t, kc_remove_with(inner_of(c), s, t, o, e));
}

static int counting_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    return kc_watch(inner_of(c), s, t, o, fn, arg, e);
}

static struct kc *counting_free(struct kc *c)
{
    free(c);
    return NULL;
}

struct kc *write_metrics_new(struct kc *inner, struct metrics *m)
{
    static const struct kc_ops ops = {
        .get = counting_get,
        .list = counting_list,
        .create = counting_create,
        .update = counting_update,
        .patch = counting_patch,
        .remove = counting_remove,
        .watch = counting_watch,
        .free = counting_free,
    };
    struct counting *n = xmalloc(sizeof(*n));
    n->base.ops = &ops;
    n->inner = inner;
    n->writes = metrics_counter(m, "cleave_controller_writes_total",
                                "Writes to the API server, except leases and Events.",
                                METRIC_LABELS("resource", "result"));
    return &n->base;
}
