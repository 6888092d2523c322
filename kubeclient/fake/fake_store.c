/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_store.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

/* Beyond it the older half of the history is dropped (a watch cache keeps 100 to 102,400
 * events). */
#define MAX_EVENTS 2000

struct fake_kind *fake_store_kind(struct fake_store *st, const struct kc_resource *res)
{
    for (size_t i = 0; i < st->kind_count; i++)
        if (!strcmp(st->kinds[i]->res.plural, res->plural) &&
            !strcmp(st->kinds[i]->res.group, res->group))
            return st->kinds[i];
    struct fake_kind *k = xmalloc(sizeof(*k));
    k->res = *res;
    *XPUSH(st->kinds, st->kind_count) = k;
    return k;
}

static struct fake_schema *find_schema(const struct fake_store *st, const char *plural)
{
    for (size_t i = 0; i < st->schema_count; i++)
        if (!strcmp(st->schemas[i].plural, plural))
            return &st->schemas[i].schema;
    return NULL;
}

const struct fake_schema *fake_store_schema(const struct fake_store *st, const char *plural)
{
    static const struct fake_schema none;
    const struct fake_schema *found = find_schema(st, plural);
    return found ? found : &none;
}

void fake_store_add_list_key(struct fake_store *st, const char *plural, const char *path,
                             const char *key)
{
    struct fake_schema *schema = find_schema(st, plural);
    if (!schema) {
        struct fake_plural_schema *fresh = XPUSH(st->schemas, st->schema_count);
        fresh->plural = xstrdup(plural);
        schema = &fresh->schema;
    }
    *XPUSH(schema->keys, schema->count) =
        (struct fake_list_key){.path = xstrdup(path), .key = xstrdup(key)};
}

/* The position where an entry is, or would be inserted. */
static size_t position(const struct fake_kind *k, const char *ns, const char *name, bool *ret_there)
{
    size_t low = 0;
    size_t high = k->count;
    *ret_there = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(k->entries[mid]->ns, ns);
        if (!order)
            order = strcmp(k->entries[mid]->name, name);
        if (!order) {
            *ret_there = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct fake_entry *fake_store_find(const struct fake_kind *k, const char *ns, const char *name)
{
    bool there;
    size_t at = position(k, ns ? ns : "", name, &there);
    return there ? k->entries[at] : NULL;
}

struct fake_entry *fake_store_add(struct fake_kind *k, const char *ns, const char *name)
{
    bool there;
    size_t at = position(k, ns ? ns : "", name, &there);
    assert(!there);
    struct fake_entry *entry = xmalloc(sizeof(*entry));
    entry->ns = xstrdup(ns ? ns : "");
    entry->name = xstrdup(name);
    (void)XPUSH(k->entries, k->count);
    memmove(&k->entries[at + 1], &k->entries[at], (k->count - 1 - at) * sizeof(*k->entries));
    k->entries[at] = entry;
    return entry;
}

static void event_done(struct fake_event *ev)
{
    json_decref(ev->obj);
    json_decref(ev->before);
}

static void forget_half(struct fake_store *st)
{
    size_t half = st->event_count / 2;
    st->compacted = st->events[half - 1].version;
    for (size_t i = 0; i < half; i++)
        event_done(&st->events[i]);
    st->event_count -= half;
    memmove(st->events, st->events + half, st->event_count * sizeof(*st->events));
}

/* Writes the next version into obj and records the change. */
static void note(struct fake_store *st, const struct fake_kind *k, enum kc_change change,
                 json_t *before, json_t *obj)
{
    if (st->event_count >= MAX_EVENTS)
        forget_half(st);
    auto_free char *text = xasprintf("%" PRIu64, ++st->version);
    (void)json_object_set_new(json_object_get(obj, "metadata"), "resourceVersion",
                              json_string(text));
    *XPUSH(st->events, st->event_count) = (struct fake_event){.version = st->version,
                                                              .change = change,
                                                              .kind = k,
                                                              .obj = json_incref(obj),
                                                              .before = json_incref(before)};
    st->writes++;
}

void fake_store_put_take(struct fake_store *st, const struct fake_kind *k, struct fake_entry *entry,
                         json_t *obj)
{
    note(st, k, entry->obj ? KC_MODIFIED : KC_ADDED, entry->obj, obj);
    json_decref(entry->obj);
    entry->obj = obj;
}

static void entry_free(struct fake_entry *entry)
{
    free(entry->ns);
    free(entry->name);
    json_decref(entry->obj);
    fake_owners_done(&entry->owners);
    free(entry);
}

void fake_store_drop_take(struct fake_store *st, struct fake_kind *k, struct fake_entry *entry,
                          json_t *last)
{
    bool there;
    size_t at = position(k, entry->ns, entry->name, &there);
    assert(there);
    note(st, k, KC_DELETED, entry->obj, last);
    json_decref(last);
    k->count--;
    memmove(&k->entries[at], &k->entries[at + 1], (k->count - at) * sizeof(*k->entries));
    entry_free(entry);
}

const struct fake_event *fake_store_next_event(const struct fake_store *st, uint64_t version)
{
    size_t low = 0;
    size_t high = st->event_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (st->events[mid].version <= version)
            low = mid + 1;
        else
            high = mid;
    }
    return low < st->event_count ? &st->events[low] : NULL;
}

static bool uid_lives(const struct fake_store *st, const char *uid)
{
    for (size_t i = 0; i < st->kind_count; i++)
        for (size_t j = 0; j < st->kinds[i]->count; j++)
            if (!strcmp(JX_STR_AT(st->kinds[i]->entries[j]->obj, "metadata", "uid"), uid))
                return true;
    return false;
}

static bool is_owned_by(const json_t *owners, const char *uid)
{
    for (size_t i = 0; i < json_array_size(owners); i++) {
        const char *owner = JX_STR_AT(json_array_get(owners, i), "uid");
        if (owner && !strcmp(owner, uid))
            return true;
    }
    return false;
}

/* True when the end of `uid` left the object without any owner. */
static bool is_orphan_of(const struct fake_store *st, const json_t *obj, const char *uid)
{
    const json_t *owners = JX_AT(obj, "metadata", "ownerReferences");
    if (!is_owned_by(owners, uid) || JX_AT(obj, "metadata", "deletionTimestamp"))
        return false;
    for (size_t i = 0; i < json_array_size(owners); i++) {
        const char *owner = JX_STR_AT(json_array_get(owners, i), "uid");
        if (owner && uid_lives(st, owner))
            return false;
    }
    return true;
}

struct fake_entry *fake_store_find_orphan(const struct fake_store *st, const char *uid,
                                          struct fake_kind **ret_kind)
{
    for (size_t i = 0; i < st->kind_count; i++) {
        for (size_t j = 0; j < st->kinds[i]->count; j++) {
            if (is_orphan_of(st, st->kinds[i]->entries[j]->obj, uid)) {
                *ret_kind = st->kinds[i];
                return st->kinds[i]->entries[j];
            }
        }
    }
    return NULL;
}

void fake_store_done(struct fake_store *st)
{
    for (size_t i = 0; i < st->kind_count; i++) {
        for (size_t j = 0; j < st->kinds[i]->count; j++)
            entry_free(st->kinds[i]->entries[j]);
        free(st->kinds[i]->entries);
        free(st->kinds[i]);
    }
    for (size_t i = 0; i < st->event_count; i++)
        event_done(&st->events[i]);
    for (size_t i = 0; i < st->schema_count; i++) {
        free(st->schemas[i].plural);
        fake_schema_done(&st->schemas[i].schema);
    }
    free(st->kinds);
    free(st->events);
    free(st->schemas);
    *st = (struct fake_store){0};
}
