/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/client.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"

int kc_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
           struct err *e)
{
    assert(t->name);
    return c->ops->get(c, s, t, ret_obj, e);
}

int kc_list_each(struct kc *c, struct scope *s, const struct kc_target *t,
                 const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                 struct err *e)
{
    static const struct kc_list_opts all;
    assert(!t->name);
    return c->ops->list(c, s, t, o ? o : &all, fn, arg, ret_version, e);
}

static int append_item(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    /* jansson counts references through the value; the items array owns one more. */
    json_t *items = arg;
    (void)json_array_append_new(items, json_deep_copy(obj));
    return 0;
}

int kc_list(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_list_opts *o,
            json_t **ret_list, struct err *e)
{
    auto_json json_t *items = json_array();
    auto_free char *version = NULL;
    TRY(kc_list_each(c, s, t, o, append_item, items, &version, e));
    *ret_list = json_pack("{s:{s:s},s:O}", "metadata", "resourceVersion", version, "items", items);
    assert(*ret_list);
    return 0;
}

/* A body of texts from outside is NULL when one of them is missing or no UTF-8. */
static int check_body(const struct kc_write *w, const struct kc_target *t, struct err *e)
{
    if (w->body)
        return 0;
    return err_set(e, ERR_INVALID, "%s %s cannot be written: a text in it is missing or no UTF-8",
                   t->res->kind, t->name ? t->name : "without a name");
}

int kc_create(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
              json_t **ret_obj, struct err *e)
{
    assert(!t->subresource || t->name);
    TRY(check_body(w, t, e));
    return c->ops->create(c, s, t, w, ret_obj, e);
}

int kc_update(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
              json_t **ret_obj, struct err *e)
{
    assert(t->name);
    TRY(check_body(w, t, e));
    return c->ops->update(c, s, t, w, ret_obj, e);
}

int kc_patch(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
             json_t **ret_obj, struct err *e)
{
    assert(t->name && (w->how != KC_APPLY || w->manager));
    TRY(check_body(w, t, e));
    return c->ops->patch(c, s, t, w, ret_obj, e);
}

int kc_remove(struct kc *c, struct scope *s, const struct kc_target *t, const char *if_uid,
              struct err *e)
{
    return kc_remove_with(c, s, t, &(struct kc_remove_opts){.if_uid = if_uid}, e);
}

int kc_remove_with(struct kc *c, struct scope *s, const struct kc_target *t,
                   const struct kc_remove_opts *o, struct err *e)
{
    assert(t->name && !t->subresource);
    return c->ops->remove(c, s, t, o, e);
}

int kc_evict(struct kc *c, struct scope *s, const struct kc_target *t, const char *if_uid,
             struct err *e)
{
    assert(t->ns && t->name);
    auto_json json_t *body = json_pack("{s:s,s:s,s:{s:s,s:s}}", "apiVersion", "policy/v1", "kind",
                                       "Eviction", "metadata", "name", t->name, "namespace", t->ns);
    if (if_uid)
        (void)json_object_set_new(body, "deleteOptions",
                                  json_pack("{s:{s:s}}", "preconditions", "uid", if_uid));
    struct kc_target eviction = *t;
    eviction.subresource = "eviction";
    return kc_create(c, s, &eviction, &(struct kc_write){.body = body}, /* ret_obj= */ NULL, e);
}

int kc_watch(struct kc *c, struct scope *s, const struct kc_target *t,
             const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    assert(o && fn && !t->name);
    return c->ops->watch(c, s, t, o, fn, arg, e);
}

bool kc_err_is_version_too_large(const struct err *e)
{
    return e->kind == ERR_TIMEOUT && e->reason && !strcmp(e->reason, "ResourceVersionTooLarge");
}

struct kc *kc_free(struct kc *c)
{
    return c ? c->ops->free(c) : NULL;
}
