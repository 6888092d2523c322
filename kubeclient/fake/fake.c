/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake_filter.h"
#include "kubeclient/fake/fake_rules.h"
#include "kubeclient/fake/fake_store.h"
#include "kubeclient/fake/fake_watch.h"
#include "kubeclient/fake/fake_write.h"

#define POD_GRACE_S 30
#define VERB_COUNT  (KC_WATCH + 1)

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
    struct fake_watches watches;
    bool pods_linger;
    size_t calls[VERB_COUNT];
};

static struct kc_fake *fake_of(struct kc *c)
{
    return (struct kc_fake *)c;
}

/* Ends a write: those who watch look again. */
static int written(struct kc_fake *f, int rc)
{
    if (rc == 0)
        fake_watches_wake(&f->watches);
    return rc;
}

static int64_t pod_grace_s(const struct kc_fake *f)
{
    return f->pods_linger ? POD_GRACE_S : 0;
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

/* ---- the verbs ---- */

static int get_locked(struct kc_fake *f, const struct kc_target *t, json_t **ret, struct err *e)
{
    HOLD(&f->mu);
    const struct fake_entry *entry =
        fake_store_find(fake_store_kind(&f->store, t->res), t->ns, t->name);
    if (!entry)
        return fake_not_found(t, e);
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

static int remove_locked(struct kc_fake *f, const struct kc_target *t,
                         const struct kc_remove_opts *o, struct err *e)
{
    HOLD(&f->mu);
    return written(f,
                   fake_write_remove(&f->store, clock_wall_ms(f->clock), t, o, pod_grace_s(f), e));
}

static int fake_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_remove_opts *o, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_REMOVE, .target = t};
    TRY(before_call(f, s, &call, e));
    return after_call(f, &call, remove_locked(f, t, o, e), e);
}

/* A dry run looks whether the object is there as the write would; it checks and merges nothing. */
static int dry_run_locked(struct kc_fake *f, enum kc_verb verb, const struct kc_target *t,
                          const struct kc_write *w, json_t **ret, struct err *e)
{
    HOLD(&f->mu);
    const char *name = t->name ? t->name : JX_STR_AT(w->body, "metadata", "name");
    const struct fake_entry *entry =
        fake_store_find(fake_store_kind(&f->store, t->res), t->ns, name ? name : "");
    bool creates = verb == KC_CREATE && !t->subresource;
    if (!entry && !creates)
        return fake_not_found(t, e);
    if (entry && creates)
        return fake_fail(e, 409, "AlreadyExists", NULL, "%s \"%s\" already exists", t->res->plural,
                         name);
    *ret = json_deep_copy(entry ? entry->obj : w->body);
    return 0;
}

static int create_locked(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                         json_t **ret, struct err *e)
{
    HOLD(&f->mu);
    return written(f, fake_write_create(&f->store, clock_wall_ms(f->clock), t, w, ret, e));
}

static int evict(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                 struct err *e)
{
    if (f->evict && !f->evict(f->evict_arg, t->ns, t->name))
        return fake_fail(e, 429, "TooManyRequests", "DisruptionBudget",
                         "Cannot evict pod as it would violate the pod's disruption budget.");
    HOLD(&f->mu);
    return written(f,
                   fake_write_evict(&f->store, clock_wall_ms(f->clock), t, w, pod_grace_s(f), e));
}

static int bind_locked(struct kc_fake *f, const struct kc_target *t, const struct kc_write *w,
                       struct err *e)
{
    HOLD(&f->mu);
    return written(f, fake_write_bind(&f->store, clock_wall_ms(f->clock), t, w, e));
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
    if (w->dry_run)
        rc = dry_run_locked(f, KC_CREATE, t, w, &obj, e);
    else if (eviction)
        rc = evict(f, t, w, e);
    else if (t->subresource && !strcmp(t->subresource, "binding"))
        rc = bind_locked(f, t, w, e);
    else if (t->subresource)
        rc = fake_not_found(t, e);
    else
        rc = create_locked(f, t, w, &obj, e);
    return finish_call(f, &call, rc, obj, ret_obj, e);
}

static int change_locked(struct kc_fake *f, enum kc_verb verb, const struct kc_target *t,
                         const struct kc_write *w, json_t **ret, struct err *e)
{
    HOLD(&f->mu);
    int64_t now = clock_wall_ms(f->clock);
    bool patch = verb == KC_PATCH;
    if (patch && w->how == KC_APPLY)
        return written(f, fake_write_apply(&f->store, now, t, w, ret, e));
    return written(f, fake_write_change(&f->store, now, t, w, patch, ret, e));
}

static int change(struct kc *c, struct scope *s, enum kc_verb verb, const struct kc_target *t,
                  const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = verb, .target = t, .write = w};
    TRY(before_call(f, s, &call, e));
    json_t *obj = NULL;
    int rc =
        w->dry_run ? dry_run_locked(f, verb, t, w, &obj, e) : change_locked(f, verb, t, w, &obj, e);
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

static int list_locked(struct kc_fake *f, const struct fake_filter *filter,
                       const struct kc_list_opts *o, json_t *ret_items, uint64_t *ret_version,
                       struct err *e)
{
    uint64_t wanted = 0;
    TRY(fake_filter_version(o->resource_version, &wanted, e));
    HOLD(&f->mu);
    TRY(fake_filter_check_reached(&f->store, wanted, e));
    if (o->version_match && !strcmp(o->version_match, "Exact") && wanted != f->store.version)
        return fake_fail(e, 410, "Expired", NULL,
                         "The provided resource version is too old, or not kept by the fake");
    return fake_filter_snapshot(&f->store, filter, ret_items, ret_version, e);
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
    struct fake_filter filter = {.t = t, .labels = o->labels, .fields = o->fields};
    auto_json json_t *items = json_array();
    uint64_t version = 0;
    TRY(after_call(f, &call, list_locked(f, &filter, o, items, &version, e), e));
    TRY(each(items, fn, arg, e));
    if (ret_version)
        *ret_version = xasprintf("%" PRIu64, version);
    return 0;
}

static int fake_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct kc_fake *f = fake_of(c);
    struct kc_call call = {.verb = KC_WATCH, .target = t};
    TRY(before_call(f, s, &call, e));
    int rc = fake_watches_run(&f->watches, s, t, o, fn, arg, e);
    return after_call(f, &call, rc, e);
}

/* ---- construction and the test's hands ---- */

static struct kc *fake_free(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    assert(!f->watches.first);
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
    f->watches = (struct fake_watches){.mu = &f->mu, .store = &f->store};
    return &f->base;
}

void kc_fake_watch_drains(struct kc *c, bool drains)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->watches.drains = drains;
    fake_watches_wake(&f->watches);
}

void kc_fake_close_watches(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->watches.close_count++;
    fake_watches_wake(&f->watches);
}

void kc_fake_bookmark(struct kc *c)
{
    struct kc_fake *f = fake_of(c);
    HOLD(&f->mu);
    f->watches.bookmark_count++;
    fake_watches_wake(&f->watches);
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
