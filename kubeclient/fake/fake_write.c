/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_write.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake_patch.h"
#include "kubeclient/fake/fake_rules.h"

static void remove_orphans_of(struct fake_store *st, int64_t now_wall_ms, const char *uid);

static void drop_entry(struct fake_store *st, int64_t now_wall_ms, struct fake_kind *k,
                       struct fake_entry *entry, bool orphan)
{
    auto_free char *uid = xstrdup(JX_STR_AT(entry->obj, "metadata", "uid"));
    fake_store_drop_take(st, k, entry, json_deep_copy(entry->obj));
    if (!orphan)
        remove_orphans_of(st, now_wall_ms, uid);
}

/* Deletes, unless a finalizer or a kubelet holds the object. */
static void delete_entry(struct fake_store *st, int64_t now_wall_ms, struct fake_kind *k,
                         struct fake_entry *entry, int64_t grace_s, bool orphan)
{
    if (grace_s == 0 && !fake_has_finalizers(entry->obj)) {
        drop_entry(st, now_wall_ms, k, entry, orphan);
        return;
    }
    if (fake_is_deleting(entry->obj))
        return;
    fake_store_put_take(st, k, entry,
                        fake_make_deleting(&k->res, entry->obj, now_wall_ms, grace_s));
}

static void remove_orphans_of(struct fake_store *st, int64_t now_wall_ms, const char *uid)
{
    struct fake_kind *k;
    struct fake_entry *entry;
    while ((entry = fake_store_find_orphan(st, uid, &k)))
        delete_entry(st, now_wall_ms, k, entry, /* grace_s= */ 0, /* orphan= */ false);
}

/* Only pods on a node end gracefully. */
static bool ends_gracefully(const struct fake_kind *k, const json_t *obj)
{
    bool pod = !*k->res.group && !strcmp(k->res.plural, "pods");
    return pod && JX_STR_AT(obj, "spec", "nodeName");
}

int fake_write_remove(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                      const struct kc_remove_opts *o, int64_t pod_grace_s, struct err *e)
{
    struct fake_kind *k = fake_store_kind(st, t->res);
    struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    if (!entry)
        return fake_not_found(t, e);
    TRY(fake_check_preconditions(t, entry->obj, o->if_uid, o->if_resource_version, e));
    int64_t grace_s = o->has_grace ? o->grace_s : pod_grace_s;
    if (!pod_grace_s || !ends_gracefully(k, entry->obj))
        grace_s = 0;
    bool orphan = o->propagation && !strcmp(o->propagation, "Orphan");
    delete_entry(st, now_wall_ms, k, entry, grace_s, orphan);
    return 0;
}

static struct fake_writer writer_of(const struct kc_target *t, const struct kc_write *w)
{
    return (struct fake_writer){.manager = w->manager ? w->manager : "unknown",
                                .applies = w->how == KC_APPLY,
                                .status = fake_is_status(t),
                                .force = w->force};
}

static int check_namespace(const struct kc_target *t, struct err *e)
{
    if (t->res->namespaced && !t->ns)
        return fake_fail(e, 400, "BadRequest", NULL, "an empty namespace may not be set");
    return 0;
}

/* Accepts the main resource, and /status of a resource that has one. */
static int check_subresource(const struct kc_target *t, struct err *e)
{
    if (!t->subresource || (fake_is_status(t) && fake_has_status(t->res)))
        return 0;
    return fake_fail(e, 404, "NotFound", NULL, "the server could not find the requested resource");
}

int fake_write_create(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                      const struct kc_write *w, json_t **ret, struct err *e)
{
    TRY(check_namespace(t, e));
    TRY(fake_check_object(t, w->body, e));
    struct fake_kind *k = fake_store_kind(st, t->res);
    auto_json json_t *obj = fake_make_new(t, w->body, ++st->serial, now_wall_ms);
    const char *name = JX_STR_AT(obj, "metadata", "name");
    assert(name); /* fake_check_object and fake_make_new see to it */
    auto_free char *resource = fake_resource_name(t->res);
    if (fake_store_find(k, t->ns, name))
        return fake_fail(e, 409, "AlreadyExists", NULL, "%s \"%s\" already exists", resource, name);
    struct fake_entry *entry = fake_store_add(k, t->ns, name);
    struct fake_writer who = writer_of(t, w);
    fake_update_owners(fake_store_schema(st, t->res->plural), &entry->owners, &who,
                       /* before= */ NULL, obj);
    fake_note_managers(fake_store_schema(st, t->res->plural), &entry->owners, obj);
    fake_store_put_take(st, k, entry, TAKE(obj));
    *ret = json_deep_copy(entry->obj);
    return 0;
}

int fake_write_evict(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                     const struct kc_write *w, int64_t pod_grace_s, struct err *e)
{
    struct kc_target pod = *t;
    pod.subresource = NULL;
    struct kc_remove_opts o = {
        .if_uid = JX_STR_AT(w->body, "deleteOptions", "preconditions", "uid"),
        .if_resource_version =
            JX_STR_AT(w->body, "deleteOptions", "preconditions", "resourceVersion"),
    };
    return fake_write_remove(st, now_wall_ms, &pod, &o, pod_grace_s, e);
}

/* Stores the result of an update, unless nothing changed. *ret: the result, a new reference. */
static void store_update(struct fake_store *st, int64_t now_wall_ms, struct fake_kind *k,
                         struct fake_entry *entry, const json_t *updated, bool owners_changed,
                         json_t **ret)
{
    if (json_equal(entry->obj, updated) && !owners_changed) {
        *ret = json_deep_copy(entry->obj);
        return;
    }
    /* The write that removes the last finalizer of a deleted object ends it; the result is never
     * stored. */
    bool ends = fake_is_deleting(updated) && !fake_has_finalizers(updated) &&
                !json_integer_value(JX_AT(updated, "metadata", "deletionGracePeriodSeconds"));
    if (ends) {
        *ret = json_deep_copy(updated);
        drop_entry(st, now_wall_ms, k, entry, /* orphan= */ false);
    } else {
        fake_store_put_take(st, k, entry, json_deep_copy(updated));
        *ret = json_deep_copy(entry->obj);
    }
}

/* The document that a write without server-side apply results in. New reference. */
static int make_wanted(const struct kc_write *w, bool patch, const json_t *live, json_t **ret,
                       struct err *e)
{
    if (!patch) {
        *ret = json_deep_copy(w->body);
    } else if (w->how == KC_MERGE) {
        *ret = fake_merge_patch(live, w->body);
    } else {
        auto_json json_t *doc = json_deep_copy(live);
        TRY(fake_json_patch(&doc, w->body, e));
        *ret = TAKE(doc);
    }
    return 0;
}

int fake_write_change(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                      const struct kc_write *w, bool patch, json_t **ret, struct err *e)
{
    TRY(check_subresource(t, e));
    struct fake_kind *k = fake_store_kind(st, t->res);
    struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    if (!entry)
        return fake_not_found(t, e);
    auto_json json_t *wanted = NULL;
    auto_json json_t *updated = NULL;
    TRY(make_wanted(w, patch, entry->obj, &wanted, e));
    TRY(fake_make_updated(t, entry->obj, wanted, /* replaces= */ !patch, &updated, e));
    struct fake_writer who = writer_of(t, w);
    fake_update_owners(fake_store_schema(st, t->res->plural), &entry->owners, &who, entry->obj,
                       updated);
    fake_note_managers(fake_store_schema(st, t->res->plural), &entry->owners, updated);
    store_update(st, now_wall_ms, k, entry, updated, /* owners_changed= */ false, ret);
    return 0;
}

/* The part of an applied configuration that counts: only status through /status, the rest without
 * it. */
static json_t *applied_part(const struct kc_target *t, const json_t *body)
{
    json_t *part = json_deep_copy(body);
    if (!fake_is_status(t)) {
        if (fake_has_status(t->res))
            (void)json_object_del(part, "status");
        return part;
    }
    if (fake_status_takes_metadata(t->res)) {
        (void)json_object_del(part, "spec");
        return part;
    }
    static const char *const kept[] = {"apiVersion", "kind", "status"};
    json_t *status = json_object();
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        (void)json_object_set(status, kept[i], json_object_get(part, kept[i]));
    (void)json_object_set_new(status, "metadata", json_pack("{s:s}", "name", t->name));
    json_decref(part);
    return status;
}

static int apply_new(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                     const struct kc_write *w, struct fake_kind *k, const json_t *part,
                     json_t **ret, struct err *e)
{
    if (fake_is_status(t))
        return fake_not_found(t, e);
    if (JX_STR_AT(w->body, "metadata", "uid"))
        return fake_fail(e, 409, "Conflict", NULL,
                         "uid mismatch: the provided object specified uid %s, and no existing "
                         "object was found",
                         JX_STR_AT(w->body, "metadata", "uid"));
    struct fake_writer who = writer_of(t, w);
    struct fake_entry *entry = fake_store_add(k, t->ns, t->name);
    auto_json json_t *merged = NULL;
    bool owned;
    /* No conflicts on a new object. */
    TRY(fake_apply(fake_store_schema(st, t->res->plural), &entry->owners, &who,
                   /* live= */ NULL, part, &merged, &owned, e));
    json_t *obj = fake_make_new(t, merged, ++st->serial, now_wall_ms);
    fake_note_managers(fake_store_schema(st, t->res->plural), &entry->owners, obj);
    fake_store_put_take(st, k, entry, obj);
    *ret = json_deep_copy(entry->obj);
    return 0;
}

int fake_write_apply(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                     const struct kc_write *w, json_t **ret, struct err *e)
{
    TRY(check_subresource(t, e));
    TRY(check_namespace(t, e));
    TRY(fake_check_object(t, w->body, e));
    auto_json json_t *part = applied_part(t, w->body);
    struct fake_kind *k = fake_store_kind(st, t->res);
    struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    if (!entry)
        return apply_new(st, now_wall_ms, t, w, k, part, ret, e);
    const char *uid = JX_STR_AT(w->body, "metadata", "uid");
    TRY(fake_check_preconditions(t, entry->obj, /* uid= */ NULL,
                                 JX_STR_AT(w->body, "metadata", "resourceVersion"), e));
    struct fake_writer who = writer_of(t, w);
    auto_json json_t *merged = NULL;
    auto_json json_t *updated = NULL;
    bool owned;
    TRY(fake_apply(fake_store_schema(st, t->res->plural), &entry->owners, &who, entry->obj, part,
                   &merged, &owned, e));
    if (uid)
        (void)json_object_set_new(json_object_get(merged, "metadata"), "uid", json_string(uid));
    TRY(fake_make_updated(t, entry->obj, merged, /* replaces= */ false, &updated, e));
    fake_note_managers(fake_store_schema(st, t->res->plural), &entry->owners, updated);
    store_update(st, now_wall_ms, k, entry, updated, owned, ret);
    return 0;
}

/* (kubernetes pkg/registry/core/pod/storage/storage.go assignPod) */
int fake_write_bind(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                    const struct kc_write *w, struct err *e)
{
    struct fake_kind *k = fake_store_kind(st, t->res);
    const struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    const struct kc_target pod = {.res = t->res, .ns = t->ns, .name = t->name};
    const json_t *annotations = JX_AT(w->body, "metadata", "annotations");
    auto_json json_t *result = NULL;
    if (!entry)
        return fake_not_found(&pod, e);
    TRY(fake_check_preconditions(&pod, entry->obj, JX_STR_AT(w->body, "metadata", "uid"),
                                 /* version= */ NULL, e));
    const char *node = JX_STR_AT(entry->obj, "spec", "nodeName");
    if (node && *node)
        return fake_fail(e, 409, "Conflict", NULL,
                         "Operation cannot be fulfilled on pods/binding \"%s\": pod %s is already "
                         "assigned to node \"%s\"",
                         t->name, t->name, node);
    auto_json json_t *change = json_pack("{s:{s:O?},s:{s:s?}}", "metadata", "annotations",
                                         (json_t *)(uintptr_t)annotations, "spec", "nodeName",
                                         JX_STR_AT(w->body, "target", "name"));
    if (!annotations)
        (void)json_object_del(change, "metadata");
    return fake_write_change(st, now_wall_ms, &pod, &(struct kc_write){.body = change},
                             /* patch= */ true, &result, e);
}
