/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/informer.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/strmap.h"
#include "base/xalloc.h"

#include "kubeclient/reflector.h"

struct handler {
    informer_fn *fn;
    void *arg;
};

/*
 * Everything but the store, the counters and the synced flag belongs to the thread that runs it. A
 * full state is gathered in `incoming` and swapped in as a whole: readers see the old state or the
 * new.
 */
struct informer {
    struct informer_opts opts;
    char *name_selector; /* metadata.name=…, possibly with opts.fields; or NULL */
    struct store *store;
    struct reflector *reflector;
    struct handler *handlers;
    size_t handler_count;
    struct strmap *incoming; /* key text → struct object; NULL while no full state arrives */
    atomic_bool started, synced;
    int synced_fd; /* readable once synced */
    _Atomic int64_t broken_objects;
};

/* Objects */

static void log_broken(struct informer *inf, const json_t *obj, const struct err *e)
{
    atomic_fetch_add(&inf->broken_objects, 1);
    log_warn("Ignored object that could not be read", kv("kind", inf->opts.type->resource->kind),
             kv("object", JX_STR_AT(obj, "metadata", "name")), kv_err(e));
}

/* Borrowed from meta; name may be NULL. */
static struct object_key key_of(const json_t *meta)
{
    return (struct object_key){.ns = JX_STR_AT(meta, "namespace"), .name = JX_STR_AT(meta, "name")};
}

/* The object in the store, if it has the same version: a relist then costs neither transforms nor
 * memory. */
static struct object *known_object(struct informer *inf, const json_t *meta)
{
    const struct object_key k = key_of(meta);
    const char *uid = JX_STR_AT(meta, "uid");
    const char *version = JX_STR_AT(meta, "resourceVersion");
    if (!k.name || !uid || !version)
        return NULL;
    auto_object struct object *o = store_get(inf->store, &k);
    if (!o || strcmp(object_uid(o), uid) != 0 || strcmp(object_version(o), version) != 0)
        return NULL;
    return TAKE(o);
}

static int check_name(const struct informer *inf, const json_t *obj, struct err *e)
{
    const char *name = JX_STR_AT(obj, "metadata", "name");
    if (!inf->opts.name || (name && strcmp(name, inf->opts.name) == 0))
        return 0;
    return err_set(e, ERR_PROTOCOL, "only \"%s\" was asked for", inf->opts.name);
}

/* The typed object, or NULL when it cannot be read. A broken object must not stop the others: the
 * last readable state stays, and the fault is logged. */
static struct object *typed(struct informer *inf, const json_t *obj)
{
    auto_err struct err e = {0};
    struct object *o = NULL;
    if (check_name(inf, obj, &e) < 0 || object_new(inf->opts.type, obj, &o, &e) < 0)
        log_broken(inf, obj, &e);
    return o;
}

static struct object *last_good_state(struct informer *inf, const json_t *meta)
{
    const struct object_key k = key_of(meta);
    const char *uid = JX_STR_AT(meta, "uid");
    if (!k.name || !uid)
        return NULL;
    auto_object struct object *o = store_get(inf->store, &k);
    return o && strcmp(object_uid(o), uid) == 0 ? TAKE(o) : NULL;
}

/* A server that sends objects without end must not take all memory. */
static int check_room(const struct informer *inf, size_t held, bool is_new, struct err *e)
{
    if (!is_new || held < inf->opts.max_objects)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "more than %zu objects of %s, which is all that a cache holds",
                   inf->opts.max_objects, inf->opts.type->resource->plural);
}

/* Calling the handlers */

static void tell(struct informer *inf, const struct object *before, const struct object *after,
                 bool stale)
{
    for (size_t i = 0; i < inf->handler_count; i++)
        inf->handlers[i].fn(inf->handlers[i].arg, before, after, stale);
}

static void tell_replaced(struct informer *inf, const struct object *before,
                          const struct object *after)
{
    if (before && strcmp(object_uid(before), object_uid(after)) != 0) {
        tell(inf, before, NULL, /* stale= */ true);
        before = NULL;
    }
    tell(inf, before, after, /* stale= */ false);
}

/* The full state */

static void drop_incoming(struct informer *inf)
{
    size_t pos = 0;
    void *o;
    while (inf->incoming && strmap_next(inf->incoming, &pos, &(const char *){NULL}, &o))
        (void)object_unref(o);
    inf->incoming = strmap_free(inf->incoming);
}

static void on_begin(void *arg)
{
    struct informer *inf = arg;
    drop_incoming(inf);
    inf->incoming = strmap_new();
}

static struct object *incoming_object(struct informer *inf, const json_t *obj)
{
    const json_t *meta = JX_AT(obj, "metadata");
    struct object *o = known_object(inf, meta);
    if (!o)
        o = typed(inf, obj);
    return o ? o : last_good_state(inf, meta);
}

/* By the key alone: the last state, which the event carries, may be one that cannot be read. */
static void drop_item(struct informer *inf, const json_t *obj)
{
    const struct object_key k = key_of(JX_AT(obj, "metadata"));
    if (!k.name)
        return;
    auto_free char *text = object_key_text(&k);
    (void)object_unref(strmap_remove(inf->incoming, text));
}

static int on_item(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    struct informer *inf = arg;
    if (change == KC_DELETED) {
        drop_item(inf, obj);
        return 0;
    }
    auto_object struct object *o = incoming_object(inf, obj);
    if (!o)
        return 0;
    const struct object_key k = object_key(o);
    auto_free char *text = object_key_text(&k);
    TRY(check_room(inf, strmap_count(inf->incoming), !strmap_get(inf->incoming, text), e));
    (void)object_unref(strmap_put(inf->incoming, text, TAKE(o)));
    return 0;
}

/* Empties `incoming` into a list that owns the references. */
static struct object_list take_incoming(struct informer *inf)
{
    struct object_list all = {0};
    size_t pos = 0;
    void *o;
    while (strmap_next(inf->incoming, &pos, &(const char *){NULL}, &o))
        *XPUSH(all.items, all.count) = o;
    inf->incoming = strmap_free(inf->incoming);
    return all;
}

static void mark_synced(struct informer *inf)
{
    if (!atomic_exchange(&inf->synced, true))
        (void)eventfd_write(inf->synced_fd, 1);
}

static void on_commit(void *arg, const char *version)
{
    struct informer *inf = arg;
    auto_object_list struct object_list all = take_incoming(inf);
    auto_store_deltas struct store_deltas deltas = {0};
    store_replace(inf->store, &all, version, &deltas);
    for (size_t i = 0; i < deltas.count; i++)
        tell(inf, deltas.items[i].before, deltas.items[i].after,
             /* stale= */ !deltas.items[i].after);
    mark_synced(inf);
}

/* Changes */

static void on_deleted(struct informer *inf, const json_t *obj, const char *version)
{
    const struct object_key k = key_of(JX_AT(obj, "metadata"));
    if (!k.name)
        return;
    auto_object struct object *before = store_remove(inf->store, &k, version);
    if (!before)
        return;
    /* The event carries the very last state. */
    auto_object struct object *last = typed(inf, obj);
    tell(inf, last ? last : before, NULL, /* stale= */ !last);
}

static bool is_new(const struct informer *inf, const struct object *o)
{
    const struct object_key k = object_key(o);
    auto_object struct object *standing = store_get(inf->store, &k);
    return !standing;
}

static int on_put(struct informer *inf, const json_t *obj, const char *version, struct err *e)
{
    auto_object struct object *after = typed(inf, obj);
    if (!after) {
        store_advance(inf->store, version);
        return 0;
    }
    TRY(check_room(inf, store_count(inf->store), is_new(inf, after), e));
    struct object *standing = NULL;
    store_put(inf->store, after, &standing);
    auto_object struct object *before = standing;
    tell_replaced(inf, before, after);
    return 0;
}

static int on_change(void *arg, enum kc_change change, const json_t *obj, const char *version,
                     struct err *e)
{
    struct informer *inf = arg;
    switch (change) {
    case KC_BOOKMARK:
        store_advance(inf->store, version);
        return 0;
    case KC_DELETED:
        on_deleted(inf, obj, version);
        return 0;
    case KC_ADDED:
    case KC_MODIFIED:
        return on_put(inf, obj, version, e);
    }
    return 0;
}

/* The informer */

static char *name_selector(const struct informer_opts *o)
{
    if (!o->name)
        return NULL;
    return o->fields ? xasprintf("metadata.name=%s,%s", o->name, o->fields)
                     : xasprintf("metadata.name=%s", o->name);
}

struct informer *informer_new(struct kc *c, const struct informer_opts *opts)
{
    assert(opts->type && opts->type->resource && opts->clk);
    struct informer *inf = xmalloc(sizeof(*inf));
    inf->opts = *opts;
    if (!inf->opts.max_objects)
        inf->opts.max_objects = KC_MAX_OBJECTS;
    inf->name_selector = name_selector(opts);
    inf->store = store_new();
    inf->synced_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    inf->reflector =
        reflector_new(c, &(struct reflector_opts){
                             .target = {.res = opts->type->resource, .ns = opts->ns},
                             .labels = opts->labels,
                             .fields = inf->name_selector ? inf->name_selector : opts->fields,
                             .clk = opts->clk,
                             .seed = opts->seed,
                             .sink = {.arg = inf,
                                      .begin = on_begin,
                                      .item = on_item,
                                      .commit = on_commit,
                                      .change = on_change},
                         });
    return inf;
}

void informer_add_handler(struct informer *inf, informer_fn *fn, void *arg)
{
    assert(!atomic_load(&inf->started));
    *XPUSH(inf->handlers, inf->handler_count) = (struct handler){.fn = fn, .arg = arg};
}

struct store *informer_store(struct informer *inf)
{
    return inf->store;
}

const struct informer_opts *informer_options(const struct informer *inf)
{
    return &inf->opts;
}

int informer_step(struct informer *inf, struct scope *s, int64_t *ret_wait_ms, struct err *e)
{
    atomic_store(&inf->started, true);
    return reflector_step(inf->reflector, s, ret_wait_ms, e);
}

int informer_run(struct informer *inf, struct scope *s, struct err *e)
{
    atomic_store(&inf->started, true);
    return reflector_run(inf->reflector, s, e);
}

void informer_set_beat(struct informer *inf, struct heartbeat *beat)
{
    reflector_set_beat(inf->reflector, beat);
}

bool informer_has_synced(const struct informer *inf)
{
    return atomic_load(&inf->synced);
}

int informer_wait_synced(struct informer *inf, struct scope *s, struct err *e)
{
    if (scope_wait_readable(s, inf->synced_fd, e) < 0)
        return err_wrap(e, "waiting for the cache of %s", inf->opts.type->resource->plural);
    return 0;
}

struct informer_stats informer_stats(const struct informer *inf)
{
    const struct reflector_stats r = reflector_stats(inf->reflector);
    return (struct informer_stats){
        .lists = r.lists,
        .watches = r.watches,
        .events = r.events,
        .errors = r.errors,
        .broken_objects = atomic_load(&inf->broken_objects),
        .last_contact_mono_ms = r.last_contact_mono_ms,
    };
}

struct informer *informer_free(struct informer *inf)
{
    if (!inf)
        return NULL;
    drop_incoming(inf);
    (void)reflector_free(inf->reflector);
    (void)store_free(inf->store);
    (void)close(inf->synced_fd);
    free(inf->handlers);
    free(inf->name_selector);
    free(inf);
    return NULL;
}
