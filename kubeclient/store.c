/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/store.h"

#include <assert.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

/* The objects of one value of an index: borrowed pointers, the store's map holds the references. */
struct bucket {
    struct object **items;
    size_t count;
};

struct store_index {
    const char *name;
    store_index_fn *fn;
    struct strmap *buckets; /* value → struct bucket */
};

struct store {
    pthread_mutex_t mu;
    /* guarded by mu */
    struct strmap *objects; /* key text → struct object, one reference each */
    struct store_index *indexes;
    size_t index_count;
    char *version;
    unsigned rewinds;
};

/* Index functions emit into this: the object is added to, or removed from, each value's bucket. */
struct store_index_out {
    struct store_index *index;
    struct object *object;
    bool remove;
};

static void bucket_add(struct store_index *index, const char *value, struct object *o)
{
    struct bucket *b = strmap_get(index->buckets, value);
    if (!b) {
        b = xmalloc(sizeof(*b));
        (void)strmap_put(index->buckets, value, b);
    }
    /* A function that emits a value twice must not list the object twice. */
    if (b->count && b->items[b->count - 1] == o)
        return;
    *XPUSH(b->items, b->count) = o;
}

static void bucket_free(struct bucket *b)
{
    free(b->items);
    free(b);
}

static void bucket_remove(struct store_index *index, const char *value, const struct object *o)
{
    struct bucket *b = strmap_get(index->buckets, value);
    if (!b)
        return;
    size_t i = 0;
    while (i < b->count && b->items[i] != o)
        i++;
    if (i == b->count)
        return;
    b->items[i] = b->items[--b->count];
    if (!b->count) {
        (void)strmap_remove(index->buckets, value);
        bucket_free(b);
    }
}

void store_index_emit(struct store_index_out *out, const char *value)
{
    if (out->remove)
        bucket_remove(out->index, value, out->object);
    else
        bucket_add(out->index, value, out->object);
}

static void reindex(struct store *st, struct object *o, bool remove)
{
    for (size_t i = 0; i < st->index_count; i++) {
        struct store_index_out out = {.index = &st->indexes[i], .object = o, .remove = remove};
        st->indexes[i].fn(o, &out);
    }
}

struct store *store_new(void)
{
    struct store *st = xmalloc(sizeof(*st));
    (void)pthread_mutex_init(&st->mu, NULL);
    st->objects = strmap_new();
    st->version = xstrdup("");
    return st;
}

void store_add_index(struct store *st, const char *name, store_index_fn *fn)
{
    HOLD(&st->mu);
    assert(strmap_count(st->objects) == 0);
    *XPUSH(st->indexes, st->index_count) =
        (struct store_index){.name = name, .fn = fn, .buckets = strmap_new()};
}

struct object *store_get(struct store *st, const struct object_key *k)
{
    auto_free char *text = object_key_text(k);
    HOLD(&st->mu);
    struct object *o = strmap_get(st->objects, text);
    return o ? object_ref(o) : NULL;
}

static void list_push(struct object_list *l, struct object *o)
{
    *XPUSH(l->items, l->count) = object_ref(o);
}

void store_list(struct store *st, struct object_list *ret)
{
    struct object_list all = {0};
    HOLD(&st->mu);
    size_t pos = 0;
    void *o;
    while (strmap_next(st->objects, &pos, &(const char *){NULL}, &o))
        list_push(&all, o);
    *ret = all;
}

static const struct store_index *find_index(const struct store *st, const char *name)
{
    for (size_t i = 0; i < st->index_count; i++)
        if (strcmp(st->indexes[i].name, name) == 0)
            return &st->indexes[i];
    return NULL;
}

void store_by_index(struct store *st, const char *index, const char *value, struct object_list *ret)
{
    struct object_list found = {0};
    HOLD(&st->mu);
    const struct store_index *ix = find_index(st, index);
    assert(ix);
    const struct bucket *b = strmap_get(ix->buckets, value);
    for (size_t i = 0; b && i < b->count; i++)
        list_push(&found, b->items[i]);
    *ret = found;
}

size_t store_count(struct store *st)
{
    HOLD(&st->mu);
    return strmap_count(st->objects);
}

bool store_has_seen(struct store *st, const char *resource_version)
{
    HOLD(&st->mu);
    return resource_version_compare(st->version, resource_version) >= 0;
}

char *store_version(struct store *st)
{
    HOLD(&st->mu);
    return xstrdup(st->version);
}

unsigned store_rewinds(struct store *st)
{
    HOLD(&st->mu);
    return st->rewinds;
}

static void set_version(struct store *st, const char *version)
{
    if (resource_version_compare(version, st->version) < 0)
        st->rewinds++;
    xstr_set(&st->version, version);
}

/* Returns the caller's reference to the replaced object, or NULL. */
static struct object *put_locked(struct store *st, const char *text, struct object *o)
{
    struct object *before = strmap_put(st->objects, text, object_ref(o));
    if (before)
        reindex(st, before, /* remove= */ true);
    reindex(st, o, /* remove= */ false);
    return before;
}

void store_put(struct store *st, struct object *o, struct object **ret_before)
{
    const struct object_key k = object_key(o);
    auto_free char *text = object_key_text(&k);
    HOLD(&st->mu);
    *ret_before = put_locked(st, text, o);
    set_version(st, object_version(o));
}

static struct object *remove_entry(struct store *st, const char *text)
{
    struct object *o = strmap_remove(st->objects, text);
    if (o)
        reindex(st, o, /* remove= */ true);
    return o;
}

struct object *store_remove(struct store *st, const struct object_key *k,
                            const char *resource_version)
{
    auto_free char *text = object_key_text(k);
    HOLD(&st->mu);
    if (resource_version)
        set_version(st, resource_version);
    return remove_entry(st, text);
}

void store_advance(struct store *st, const char *resource_version)
{
    HOLD(&st->mu);
    set_version(st, resource_version);
}

static void delta_push(struct store_deltas *d, struct object *before, struct object *after)
{
    *XPUSH(d->items, d->count) = (struct store_delta){.before = before ? object_ref(before) : NULL,
                                                      .after = after ? object_ref(after) : NULL};
}

static bool same_state(const struct object *a, const struct object *b)
{
    return strcmp(object_uid(a), object_uid(b)) == 0 &&
           strcmp(object_version(a), object_version(b)) == 0;
}

static void note_difference(struct store_deltas *d, struct object *before, struct object *after)
{
    if (before && strcmp(object_uid(before), object_uid(after)) != 0) {
        delta_push(d, before, NULL);
        before = NULL;
    }
    delta_push(d, before, after);
}

static void replace_one(struct store *st, const char *text, struct object *o,
                        struct store_deltas *ret)
{
    struct object *standing = strmap_get(st->objects, text);
    if (standing == o || (standing && same_state(standing, o)))
        return;
    note_difference(ret, standing, o);
    (void)object_unref(put_locked(st, text, o));
}

/* Removes the objects that are not in `keep`. */
static void sweep(struct store *st, const struct strmap *keep, struct store_deltas *ret)
{
    size_t pos = 0;
    const char *text;
    void *value;
    while (strmap_next(st->objects, &pos, &text, &value)) {
        if (strmap_get(keep, text))
            continue;
        delta_push(ret, value, NULL);
        (void)object_unref(remove_entry(st, text));
    }
}

/* Key text → the last object of that key, all borrowed from the list. */
static struct strmap *by_key(const struct object_list *all)
{
    struct strmap *m = strmap_new();
    for (size_t i = 0; i < all->count; i++) {
        const struct object_key k = object_key(all->items[i]);
        auto_free char *text = object_key_text(&k);
        (void)strmap_put(m, text, all->items[i]);
    }
    return m;
}

void store_replace(struct store *st, const struct object_list *all, const char *resource_version,
                   struct store_deltas *ret)
{
    struct store_deltas deltas = {0};
    auto_strmap struct strmap *wanted = by_key(all);
    HOLD(&st->mu);
    sweep(st, wanted, &deltas);
    size_t pos = 0;
    const char *text;
    void *o;
    while (strmap_next(wanted, &pos, &text, &o))
        replace_one(st, text, o, &deltas);
    set_version(st, resource_version);
    *ret = deltas;
}

void store_deltas_done(struct store_deltas *d)
{
    for (size_t i = 0; i < d->count; i++) {
        (void)object_unref(d->items[i].before);
        (void)object_unref(d->items[i].after);
    }
    free(d->items);
    *d = (struct store_deltas){0};
}

static void index_done(struct store_index *ix)
{
    size_t pos = 0;
    void *b;
    while (strmap_next(ix->buckets, &pos, &(const char *){NULL}, &b))
        bucket_free(b);
    (void)strmap_free(ix->buckets);
}

struct store *store_free(struct store *st)
{
    if (!st)
        return NULL;
    for (size_t i = 0; i < st->index_count; i++)
        index_done(&st->indexes[i]);
    free(st->indexes);
    size_t pos = 0;
    void *o;
    while (strmap_next(st->objects, &pos, &(const char *){NULL}, &o))
        (void)object_unref(o);
    (void)strmap_free(st->objects);
    free(st->version);
    (void)pthread_mutex_destroy(&st->mu);
    free(st);
    return NULL;
}
