/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/jx.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake_patch.h"
#include "kubeclient/fake/fake_rules.h"
#include "kubeclient/fake/fake_selector.h"
#include "kubeclient/fake/fake_store.h"

#define POD_GRACE_S 30
#define VERB_COUNT  (KC_WATCH + 1)

/* A watch in progress. */
struct watcher {
    int wake; /* eventfd: something changed */
    struct watcher *next;
};

struct kc_fake {
    struct kc base;
    const struct clock *clock;
    kc_fake_hook_fn *hook; /* these four are set before other threads start */
    void *hook_arg;
    kc_fake_evict_fn *evict;
    void *evict_arg;

    /* Results are copied under mu: jansson's json_decref reads the count of a shared document
     * without an atomic. */
    pthread_mutex_t mu;
    struct fake_store store; /* all guarded by mu */
    struct watcher *watchers;
    bool drains, pods_linger;
    uint64_t close_count, bookmark_count;
    size_t calls[VERB_COUNT];
};

static struct kc_fake *fake_of(struct kc *c)
{
    return (struct kc_fake *)c;
}

static void wake_watchers(struct kc_fake *f)
{
    for (struct watcher *w = f->watchers; w; w = w->next)
        (void)eventfd_write(w->wake, 1);
}

/* ---- the frame of every call ---- */

static int before_call(struct kc_fake *f, struct scope *s, struct kc_call *call, struct err *e)
{
    TRY(scope_check(s, e));
    {
        HOLD(&f->mu);
        f->calls[call->verb]++;
    }
    return f->hook ? f->hook(f->hook_arg, call, e) : 0;
}

static int after_call(struct kc_fake *f, struct kc_call *call, int rc, struct err *e)
{
    call->after = true;
    return rc == 0 && f->hook ? f->hook(f->hook_arg, call, e) : rc;
}

/* Returns a result to the caller, or drops it when the answer is lost or unwanted. */
static int finish_call(struct kc_fake *f, struct kc_call *call, int rc, json_t *result_take,
                       json_t **ret_obj, struct err *e)
{
    auto_json json_t *result = result_take;
    TRY(after_call(f, call, rc, e));
    if (ret_obj)
        *ret_obj = TAKE(result);
    return 0;
}

static int not_found(const struct kc_target *t, struct err *e)
{
    auto_free char *resource = fake_resource_name(t->res);
    return fake_fail(e, 404, "NotFound", NULL, "%s \"%s\" not found", resource, t->name);
}

static bool is_status(const struct kc_target *t)
{
    return t->subresource && !strcmp(t->subresource, "status");
}

/* Accepts the main resource, and /status of a resource that has one. */
static int check_subresource(const struct kc_target *t, struct err *e)
{
    if (!t->subresource || (is_status(t) && fake_has_status(t->res)))
        return 0;
    return fake_fail(e, 404, "NotFound", NULL, "the server could not find the requested resource");
}

/* ---- get ---- */

static int get_locked(struct kc_fake *f, const struct kc_target *t, json_t **ret, struct err *e)
{
    HOLD(&f->mu);
    const struct fake_entry *entry =
        fake_store_find(fake_store_kind(&f->store, t->res), t->ns, t->name);
    if (!entry)
        return not_found(t, e);
    *ret = json_deep_copy(entry->obj);
    return 0;
}

static int fake_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                    struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_GET, .target = t};
    TRY(before_call(f, s, &call, e));
    json_t *obj = NULL;
    int rc = get_locked(f, t, &obj, e);
    return finish_call(f, &call, rc, obj, ret_obj, e);
}

/* ---- the end of objects ---- */

static void remove_orphans_of(struct kc_fake *f, const char *uid);

static void drop(struct kc_fake *f, struct fake_kind *k, struct fake_entry *entry, bool orphan)
{
    auto_free char *uid = xstrdup(JX_STR_AT(entry->obj, "metadata", "uid"));
    fake_store_drop_take(&f->store, k, entry, json_deep_copy(entry->obj));
    if (!orphan)
        remove_orphans_of(f, uid);
}

/* Deletes, unless a finalizer or a kubelet holds the object. */
static void delete_entry(struct kc_fake *f, struct fake_kind *k, struct fake_entry *entry,
                         int64_t grace_s, bool orphan)
{
    if (grace_s == 0 && !fake_has_finalizers(entry->obj)) {
        drop(f, k, entry, orphan);
        return;
    }
    if (fake_is_deleting(entry->obj))
        return;
    fake_store_put_take(&f->store, k, entry,
                        fake_make_deleting(&k->res, entry->obj, clock_wall_ms(f->clock), grace_s));
}

static void remove_orphans_of(struct kc_fake *f, const char *uid)
{
    struct fake_kind *k;
    struct fake_entry *entry;
    while ((entry = fake_store_find_orphan(&f->store, uid, &k)))
        delete_entry(f, k, entry, /* grace_s= */ 0, /* orphan= */ false);
}

static int64_t grace_of(const struct kc_fake *f, const struct fake_kind *k, const json_t *obj)
{
    bool pod = !*k->res.group && !strcmp(k->res.plural, "pods");
    return pod && f->pods_linger && JX_STR_AT(obj, "spec", "nodeName") ? POD_GRACE_S : 0;
}

static int remove_object(struct kc_fake *f, const struct kc_target *t,
                         const struct kc_remove_opts *o, struct err *e)
{
    HOLD(&f->mu);
    struct fake_kind *k = fake_store_kind(&f->store, t->res);
    struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    if (!entry)
        return not_found(t, e);
    TRY(fake_check_preconditions(t, entry->obj, o->if_uid, o->if_resource_version, e));
    int64_t grace_s = o->has_grace ? o->grace_s : grace_of(f, k, entry->obj);
    if (!grace_of(f, k, entry->obj))
        grace_s = 0; /* only pods on a node end gracefully */
    bool orphan = o->propagation && !strcmp(o->propagation, "Orphan");
    delete_entry(f, k, entry, grace_s, orphan);
    wake_watchers(f);
    return 0;
}

static int fake_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_remove_opts *o, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_REMOVE, .target = t};
    TRY(before_call(f, s, &call, e));
    return after_call(f, &call, remove_object(f, t, o, e), e);
}

/* ---- create and evict ---- */

static struct fake_writer writer_of(const struct kc_target *t, const struct kc_write *w)
{
    return (struct fake_writer){.manager = w->manager ? w->manager : "unknown",
                                .applies = w->how == KC_APPLY,
                                .status = is_status(t),
                                .force = w->force};
}

static int check_namespace(const struct kc_target *t, struct err *e)
{
    if (t->res->namespaced && !t->ns)
        return fake_fail(e, 400, "BadRequest", NULL, "an empty namespace may not be set");
    return 0;
}

static int create_locked(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                         json_t **ret, struct err *e)
{
    TRY(check_namespace(t, e));
    TRY(fake_check_object(t, w->body, e));
    HOLD(&f->mu);
    struct fake_kind *k = fake_store_kind(&f->store, t->res);
    auto_json json_t *obj = fake_make_new(t, w->body, ++f->store.serial, clock_wall_ms(f->clock));
    const char *name = JX_STR_AT(obj, "metadata", "name");
    auto_free char *resource = fake_resource_name(t->res);
    if (fake_store_find(k, t->ns, name))
        return fake_fail(e, 409, "AlreadyExists", NULL, "%s \"%s\" already exists", resource, name);
    struct fake_entry *entry = fake_store_add(k, t->ns, name);
    struct fake_writer who = writer_of(t, w);
    fake_update_owners(fake_store_schema(&f->store, t->res->plural), &entry->owners, &who,
                       /* before= */ NULL, obj);
    fake_note_managers(fake_store_schema(&f->store, t->res->plural), &entry->owners, obj);
    fake_store_put_take(&f->store, k, entry, TAKE(obj));
    *ret = json_deep_copy(entry->obj);
    wake_watchers(f);
    return 0;
}

static int evict(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                 struct err *e)
{
    struct kc_target pod = *t;
    pod.subresource = NULL;
    if (f->evict && !f->evict(f->evict_arg, t->ns, t->name))
        return fake_fail(e, 429, "TooManyRequests", "DisruptionBudget",
                         "Cannot evict pod as it would violate the pod's disruption budget.");
    struct kc_remove_opts o = {
        .if_uid = JX_STR_AT(w->body, "deleteOptions", "preconditions", "uid"),
        .if_resource_version =
            JX_STR_AT(w->body, "deleteOptions", "preconditions", "resourceVersion"),
    };
    return remove_object(f, &pod, &o, e);
}

static int fake_create(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_CREATE, .target = t, .write = w};
    TRY(before_call(f, s, &call, e));
    json_t *obj = NULL;
    bool eviction = t->subresource && !strcmp(t->subresource, "eviction");
    int rc;
    if (eviction)
        rc = evict(f, t, w, e);
    else if (t->subresource)
        rc = not_found(t, e);
    else
        rc = create_locked(f, t, w, &obj, e);
    return finish_call(f, &call, rc, obj, ret_obj, e);
}

/* ---- update and patch ---- */

/* Stores the result of an update, unless nothing changed. *ret: the result, a new reference. */
static void store_update(struct kc_fake *f, struct fake_kind *k, struct fake_entry *entry,
                         const json_t *updated, bool owners_changed, json_t **ret)
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
        drop(f, k, entry, /* orphan= */ false);
    } else {
        fake_store_put_take(&f->store, k, entry, json_deep_copy(updated));
        *ret = json_deep_copy(entry->obj);
    }
    wake_watchers(f);
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

static int change_locked(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                         bool patch, json_t **ret, struct err *e)
{
    TRY(check_subresource(t, e));
    HOLD(&f->mu);
    struct fake_kind *k = fake_store_kind(&f->store, t->res);
    struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    if (!entry)
        return not_found(t, e);
    auto_json json_t *wanted = NULL;
    auto_json json_t *updated = NULL;
    TRY(make_wanted(w, patch, entry->obj, &wanted, e));
    TRY(fake_make_updated(t, entry->obj, wanted, /* replaces= */ !patch, &updated, e));
    struct fake_writer who = writer_of(t, w);
    fake_update_owners(fake_store_schema(&f->store, t->res->plural), &entry->owners, &who,
                       entry->obj, updated);
    fake_note_managers(fake_store_schema(&f->store, t->res->plural), &entry->owners, updated);
    store_update(f, k, entry, updated, /* owners_changed= */ false, ret);
    return 0;
}

/* The part of an applied configuration that counts: only status through /status, the rest without
 * it. */
static json_t *applied_part(const struct kc_target *t, const json_t *body)
{
    json_t *part = json_deep_copy(body);
    if (!is_status(t)) {
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

static int apply_new(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                     struct fake_kind *k, const json_t *part, json_t **ret, struct err *e)
{
    if (is_status(t))
        return not_found(t, e);
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
    TRY(fake_apply(fake_store_schema(&f->store, t->res->plural), &entry->owners, &who,
                   /* live= */ NULL, part, &merged, &owned, e));
    json_t *obj = fake_make_new(t, merged, ++f->store.serial, clock_wall_ms(f->clock));
    fake_note_managers(fake_store_schema(&f->store, t->res->plural), &entry->owners, obj);
    fake_store_put_take(&f->store, k, entry, obj);
    *ret = json_deep_copy(entry->obj);
    wake_watchers(f);
    return 0;
}

static int apply_locked(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                        json_t **ret, struct err *e)
{
    TRY(check_subresource(t, e));
    TRY(check_namespace(t, e));
    TRY(fake_check_object(t, w->body, e));
    auto_json json_t *part = applied_part(t, w->body);
    HOLD(&f->mu);
    struct fake_kind *k = fake_store_kind(&f->store, t->res);
    struct fake_entry *entry = fake_store_find(k, t->ns, t->name);
    if (!entry)
        return apply_new(f, t, w, k, part, ret, e);
    const char *uid = JX_STR_AT(w->body, "metadata", "uid");
    TRY(fake_check_preconditions(t, entry->obj, /* uid= */ NULL,
                                 JX_STR_AT(w->body, "metadata", "resourceVersion"), e));
    struct fake_writer who = writer_of(t, w);
    auto_json json_t *merged = NULL;
    auto_json json_t *updated = NULL;
    bool owned;
    TRY(fake_apply(fake_store_schema(&f->store, t->res->plural), &entry->owners, &who, entry->obj,
                   part, &merged, &owned, e));
    if (uid)
        (void)json_object_set_new(json_object_get(merged, "metadata"), "uid", json_string(uid));
    TRY(fake_make_updated(t, entry->obj, merged, /* replaces= */ false, &updated, e));
    fake_note_managers(fake_store_schema(&f->store, t->res->plural), &entry->owners, updated);
    store_update(f, k, entry, updated, owned, ret);
    return 0;
}

static int change(struct kc *c, struct scope *s, enum kc_verb verb, const struct kc_target *t,
                  const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = verb, .target = t, .write = w};
    TRY(before_call(f, s, &call, e));
    json_t *obj = NULL;
    int rc = verb == KC_PATCH && w->how == KC_APPLY
                 ? apply_locked(f, t, w, &obj, e)
                 : change_locked(f, t, w, verb == KC_PATCH, &obj, e);
    return finish_call(f, &call, rc, obj, ret_obj, e);
}

static int fake_update(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_write plain = *w;
    plain.how = KC_MERGE; /* has no meaning for an update */
    return change(c, s, KC_UPDATE, t, &plain, ret_obj, e);
}

static int fake_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return change(c, s, KC_PATCH, t, w, ret_obj, e);
}

/* ---- list ---- */

/* The selection of a list or watch. */
struct filter {
    const struct kc_target *t;
    const char *labels, *fields;
};

static int matches(const struct filter *filter, const json_t *obj, bool *ret, struct err *e)
{
    bool labels = false;
    bool fields = false;
    const char *ns = JX_STR_AT(obj, "metadata", "namespace");
    bool here = !filter->t->ns || !filter->t->res->namespaced || (ns && !strcmp(ns, filter->t->ns));
    TRY(fake_labels_match(filter->labels, obj, &labels, e));
    TRY(fake_fields_match(filter->fields, filter->t->res->plural, obj, &fields, e));
    *ret = here && labels && fields;
    return 0;
}

static int parse_version(const char *text, uint64_t *ret, struct err *e)
{
    int64_t n = 0;
    if (text && *text && num_parse(text, 0, INT64_MAX, &n, NULL) < 0)
        return fake_fail(e, 400, "BadRequest", NULL, "invalid resource version \"%s\"", text);
    *ret = (uint64_t)n;
    return 0;
}

static int check_reached(const struct kc_fake *f, uint64_t wanted, struct err *e)
{
    if (wanted <= f->store.version)
        return 0;
    return fake_fail(e, 504, "Timeout", "ResourceVersionTooLarge",
                     "Too large resource version: %" PRIu64 ", current: %" PRIu64, wanted,
                     f->store.version);
}

/* The matching objects, as an array of copies, and the version. */
static int snapshot(struct kc_fake *f, const struct filter *filter, json_t *ret_items,
                    uint64_t *ret_version, struct err *e)
{
    const struct fake_kind *k = fake_store_kind(&f->store, filter->t->res);
    for (size_t i = 0; i < k->count; i++) {
        bool fits = false;
        TRY(matches(filter, k->entries[i]->obj, &fits, e));
        if (fits)
            (void)json_array_append_new(ret_items, json_deep_copy(k->entries[i]->obj));
    }
    *ret_version = f->store.version;
    return 0;
}

static int list_locked(struct kc_fake *f, const struct filter *filter, const struct kc_list_opts *o,
                       json_t *ret_items, uint64_t *ret_version, struct err *e)
{
    uint64_t wanted = 0;
    TRY(parse_version(o->resource_version, &wanted, e));
    HOLD(&f->mu);
    TRY(check_reached(f, wanted, e));
    if (o->version_match && !strcmp(o->version_match, "Exact") && wanted != f->store.version)
        return fake_fail(e, 410, "Expired", NULL,
                         "The provided resource version is too old, or not kept by the fake");
    return snapshot(f, filter, ret_items, ret_version, e);
}

static int each(const json_t *items, kc_item_fn *fn, void *arg, struct err *e)
{
    for (size_t i = 0; i < json_array_size(items); i++)
        TRY(fn(arg, json_array_get(items, i), e));
    return 0;
}

static int fake_list(struct kc *c, struct scope *s, const struct kc_target *t,
                     const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                     struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_LIST, .target = t};
    TRY(before_call(f, s, &call, e));
    struct filter filter = {.t = t, .labels = o->labels, .fields = o->fields};
    auto_json json_t *items = json_array();
    uint64_t version = 0;
    TRY(after_call(f, &call, list_locked(f, &filter, o, items, &version, e), e));
    TRY(each(items, fn, arg, e));
    if (ret_version)
        *ret_version = xasprintf("%" PRIu64, version);
    return 0;
}

/* ---- watch ---- */

/* A watch in progress, as its own thread sees it. */
struct watching {
    struct kc_fake *f;
    struct filter filter;
    kc_change_fn *fn;
    void *arg;
    struct watcher watcher;
    uint64_t seen_version, seen_bookmark, seen_close;
};

/* The next step of a watch. */
struct step {
    enum { STEP_WAIT, STEP_DELIVER, STEP_SKIP, STEP_END } what;
    enum kc_change change;
    json_t *obj; /* STEP_DELIVER: a reference */
};

static json_t *make_bookmark(const struct kc_resource *r, uint64_t version, bool initial_end)
{
    auto_free char *text = xasprintf("%" PRIu64, version);
    auto_free char *api =
        *r->group ? xasprintf("%s/%s", r->group, r->version) : xstrdup(r->version);
    json_t *obj = json_pack("{s:s,s:s,s:{s:s}}", "kind", r->kind, "apiVersion", api, "metadata",
                            "resourceVersion", text);
    if (initial_end)
        (void)json_object_set_new(json_object_get(obj, "metadata"), "annotations",
                                  json_pack("{s:s}", "k8s.io/initial-events-end", "true"));
    return obj;
}

/* An object as it was before, with the version of the change that removed it from the selection. */
static json_t *last_seen(const struct fake_event *ev)
{
    json_t *obj = json_deep_copy(ev->before);
    (void)json_object_set(json_object_get(obj, "metadata"), "resourceVersion",
                          json_object_get(json_object_get(ev->obj, "metadata"), "resourceVersion"));
    return obj;
}

/* The event as the filter shows it (apiserver cacher: an object that begins or ceases to match is
 * ADDED or DELETED). */
static int look_at(const struct watching *w, const struct fake_event *ev, struct step *ret,
                   struct err *e)
{
    bool is = false;
    bool was = false;
    if (ev->change != KC_DELETED)
        TRY(matches(&w->filter, ev->obj, &is, e));
    if (ev->before)
        TRY(matches(&w->filter, ev->before, &was, e));
    if (!is && !was) {
        ret->what = STEP_SKIP;
        return 0;
    }
    ret->what = STEP_DELIVER;
    ret->change = is ? (was ? KC_MODIFIED : KC_ADDED) : KC_DELETED;
    ret->obj = is ? json_deep_copy(ev->obj) : last_seen(ev);
    return 0;
}

static int next_step(struct watching *w, struct step *ret, struct err *e)
{
    struct kc_fake *f = w->f;
    HOLD(&f->mu);
    *ret = (struct step){.what = STEP_WAIT};
    if (f->close_count != w->seen_close) {
        ret->what = STEP_END;
        return 0;
    }
    const struct fake_event *ev = fake_store_next_event(&f->store, w->seen_version);
    if (ev) {
        w->seen_version = ev->version;
        if (ev->kind == fake_store_kind(&f->store, w->filter.t->res))
            return look_at(w, ev, ret, e);
        ret->what = STEP_SKIP;
    } else if (f->bookmark_count != w->seen_bookmark) {
        w->seen_bookmark = f->bookmark_count;
        *ret = (struct step){.what = STEP_DELIVER,
                             .change = KC_BOOKMARK,
                             .obj = make_bookmark(w->filter.t->res, f->store.version,
                                                  /* initial_end= */ false)};
    } else if (f->drains) {
        ret->what = STEP_END;
    }
    return 0;
}

static int wait_for_event(struct watching *w, struct scope *s, struct err *e)
{
    TRY(scope_wait_readable(s, w->watcher.wake, e));
    eventfd_t n;
    (void)eventfd_read(w->watcher.wake, &n);
    return 0;
}

static int follow(struct watching *w, struct scope *s, struct err *e)
{
    for (;;) {
        TRY(scope_check(s, e));
        struct step step = {0};
        TRY(next_step(w, &step, e));
        auto_json json_t *obj = step.obj;
        if (step.what == STEP_END)
            return 0;
        if (step.what == STEP_DELIVER)
            TRY(w->fn(w->arg, step.change, obj, e));
        else if (step.what == STEP_WAIT)
            TRY(wait_for_event(w, s, e));
    }
}

/* Delivers the present state as ADDED, and sets the version to go on from. */
static int begin(struct watching *w, const struct kc_watch_opts *o, struct err *e)
{
    uint64_t from = 0;
    TRY(parse_version(o->resource_version, &from, e));
    auto_json json_t *items = json_array();
    auto_json json_t *bookmark = NULL;
    {
        HOLD(&w->f->mu);
        TRY(check_reached(w->f, from, e));
        if (from && !o->send_initial_events) {
            w->seen_version = from;
            if (from < w->f->store.compacted)
                return fake_fail(e, 410, "Expired", NULL,
                                 "too old resource version: %" PRIu64 " (%" PRIu64 ")", from,
                                 w->f->store.compacted);
            return 0;
        }
        TRY(snapshot(w->f, &w->filter, items, &w->seen_version, e));
        /* Servers with WatchList treat a watch from nowhere as one (SetListOptionsDefaults). */
        bookmark = make_bookmark(w->filter.t->res, w->seen_version, /* initial_end= */ true);
    }
    for (size_t i = 0; i < json_array_size(items); i++)
        TRY(w->fn(w->arg, KC_ADDED, json_array_get(items, i), e));
    return w->fn(w->arg, KC_BOOKMARK, bookmark, e);
}

static void enlist(struct watching *w)
{
    w->watcher.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert(w->watcher.wake >= 0);
    HOLD(&w->f->mu);
    w->seen_close = w->f->close_count;
    w->watcher.next = w->f->watchers;
    w->f->watchers = &w->watcher;
}

static void delist(struct watching *w)
{
    HOLD(&w->f->mu);
    struct watcher **link = &w->f->watchers;
    while (*link != &w->watcher)
        link = &(*link)->next;
    *link = w->watcher.next;
    (void)close(w->watcher.wake);
}

static int watch_until(struct watching *w, struct scope *parent, const struct kc_watch_opts *o,
                       struct err *e)
{
    auto_scope struct scope *s = scope_new(parent, o->timeout_s > 0 ? o->timeout_s * 1000LL : -1);
    TRY(begin(w, o, e));
    int rc = follow(w, s, e);
    if (rc != -(int)ERR_TIMEOUT || scope_left_ms(parent) == 0)
        return rc;
    if (e)
        err_clear(e); /* the server's time, not the caller's: a clean end */
    return 0;
}

static int fake_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_WATCH, .target = t};
    TRY(before_call(f, s, &call, e));
    struct watching w = {.f = f,
                         .filter = {.t = t, .labels = o->labels, .fields = o->fields},
                         .fn = fn,
                         .arg = arg};
    enlist(&w);
    int rc = watch_until(&w, s, o, e);
    delist(&w);
    return after_call(f, &call, rc, e);
}

/* ---- construction and the test's hands ---- */

static struct kc *fake_free(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    assert(!f->watchers);
    fake_store_done(&f->store);
    (void)pthread_mutex_destroy(&f->mu);
    free(f);
    return NULL;
}

static const struct kc_ops fake_ops = {
    .get = fake_get,
    .list = fake_list,
    .create = fake_create,
    .update = fake_update,
    .patch = fake_patch,
    .remove = fake_remove,
    .watch = fake_watch,
    .free = fake_free,
};

struct kc *kc_fake_new(const struct clock *clock)
{
    struct kc_fake *f = xmalloc(sizeof(*f));
    f->base.ops = &fake_ops;
    f->clock = clock;
    f->store.version = 1; /* "0" means something else */
    (void)pthread_mutex_init(&f->mu, NULL);
    return &f->base;
}

void kc_fake_watch_drains(struct kc *c, bool drains)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->drains = drains;
    wake_watchers(f);
}

void kc_fake_close_watches(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->close_count++;
    wake_watchers(f);
}

void kc_fake_bookmark(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->bookmark_count++;
    wake_watchers(f);
}

void kc_fake_compact(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->store.compacted = f->store.version;
}

void kc_fake_list_key(struct kc *c, const char *plural, const char *path, const char *key)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    fake_store_add_list_key(&f->store, plural, path, key);
}

void kc_fake_pods_linger(struct kc *c, bool linger)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->pods_linger = linger;
}

void kc_fake_on_evict(struct kc *c, kc_fake_evict_fn *fn, void *arg)
{
    fake_of(c)->evict = fn;
    fake_of(c)->evict_arg = arg;
}

void kc_fake_hook(struct kc *c, kc_fake_hook_fn *fn, void *arg)
{
    fake_of(c)->hook = fn;
    fake_of(c)->hook_arg = arg;
}

size_t kc_fake_writes(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    return f->store.writes;
}

size_t kc_fake_calls(struct kc *c, enum kc_verb verb)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    return f->calls[verb];
}
