/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/observed.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

/* Immutable. */
struct observed {
    struct kc base;
    struct kc *inner;
    kc_written_fn *written;
    void *arg;
};

static struct observed *observed_of(struct kc *c)
{
    return (struct observed *)(void *)c;
}

static struct kc *inner_of(struct kc *c)
{
    return observed_of(c)->inner;
}

/* Reports the end of a write, and hands its error to the caller. */
static int end(struct kc *c, const struct kc_target *t, int rc, struct err *mine, struct err *e)
{
    const struct observed *o = observed_of(c);
    o->written(o->arg, t, rc, mine);
    if (rc < 0)
        (void)err_move(e, mine);
    return rc;
}

static int observed_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                        struct err *e)
{
    return kc_get(inner_of(c), s, t, ret_obj, e);
}

static int observed_list(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_list_opts *o, kc_item_fn *fn, void *arg,
                         char **ret_version, struct err *e)
{
    return kc_list_each(inner_of(c), s, t, o, fn, arg, ret_version, e);
}

static int observed_create(struct kc *c, struct scope *s, const struct kc_target *t,
                           const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    auto_err struct err mine = {0};
    return end(c, t, kc_create(inner_of(c), s, t, w, ret_obj, &mine), &mine, e);
}

static int observed_update(struct kc *c, struct scope *s, const struct kc_target *t,
                           const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    auto_err struct err mine = {0};
    return end(c, t, kc_update(inner_of(c), s, t, w, ret_obj, &mine), &mine, e);
}

static int observed_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    auto_err struct err mine = {0};
    return end(c, t, kc_patch(inner_of(c), s, t, w, ret_obj, &mine), &mine, e);
}

static int observed_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                           const struct kc_remove_opts *o, struct err *e)
{
    auto_err struct err mine = {0};
    return end(c, t, kc_remove_with(inner_of(c), s, t, o, &mine), &mine, e);
}

static int observed_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    return kc_watch(inner_of(c), s, t, o, fn, arg, e);
}

static struct kc *observed_free(struct kc *c)
{
    free(c);
    return NULL;
}

struct kc *kc_observed_new(struct kc *inner, kc_written_fn *written, void *arg)
{
    static const struct kc_ops ops = {
        .get = observed_get,
        .list = observed_list,
        .create = observed_create,
        .update = observed_update,
        .patch = observed_patch,
        .remove = observed_remove,
        .watch = observed_watch,
        .free = observed_free,
    };
    assert(inner && written);
    struct observed *o = xmalloc(sizeof(*o));
    *o = (struct observed){{&ops}, inner, written, arg};
    return &o->base;
}
