/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_fields.h"

#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake_patch.h"

#define MAX_PATH_BYTES 4096

/* A position in a document: its path, and the path without the keys of items. */
struct cursor {
    const struct fake_schema *schema;
    struct sb path, plain;
};

static struct cursor cursor_new(const struct fake_schema *schema)
{
    return (struct cursor){.schema = schema,
                           .path = SB_INIT(MAX_PATH_BYTES),
                           .plain = SB_INIT(MAX_PATH_BYTES)};
}

static void cursor_done(struct cursor *p)
{
    sb_done(&p->path);
    sb_done(&p->plain);
}
#define auto_cursor __attribute__((cleanup(cursor_done)))

/* A position to return to. */
struct mark {
    size_t path, plain;
};

static struct mark here(const struct cursor *p)
{
    return (struct mark){p->path.len, p->plain.len};
}

static void cut(struct sb *b, size_t len)
{
    b->len = len;
    if (b->data)
        b->data[len] = '\0';
}

static void leave(struct cursor *p, struct mark m)
{
    cut(&p->path, m.path);
    cut(&p->plain, m.plain);
}

static void enter_member(struct cursor *p, const char *name)
{
    sb_addf(&p->path, ".%s", name);
    sb_addf(&p->plain, "%s%s", p->plain.len ? "." : "", name);
}

static void enter_item(struct cursor *p, const char *key, const char *value)
{
    sb_addf(&p->path, "[%s=\"%s\"]", key, value);
}

/* ---- the schema's say ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s);
    size_t m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* The member that identifies the items of the list at p; "" for a set; NULL: the list is a leaf. */
static const char *key_at(const struct cursor *p)
{
    const char *plain = sb_str(&p->plain);
    for (size_t i = 0; i < p->schema->count; i++)
        if (!strcmp(p->schema->keys[i].path, plain))
            return p->schema->keys[i].key;
    if (ends_with(plain, "conditions"))
        return "type";
    if (!strcmp(plain, "metadata.ownerReferences"))
        return "uid";
    if (!strcmp(plain, "metadata.finalizers"))
        return "";
    return !strcmp(plain, "spec.containers") ? "name" : NULL;
}

/* The identifying value of an item, or NULL. Borrowed. */
static const char *id_of(const json_t *item, const char *key)
{
    return *key ? JX_STR_AT(item, key) : json_string_value(item);
}

/* The key by which the list at p can be merged: all items have it. */
static const char *merge_key(const struct cursor *p, const json_t *list)
{
    const char *key = json_is_array(list) ? key_at(p) : NULL;
    for (size_t i = 0; key && i < json_array_size(list); i++)
        if (!id_of(json_array_get(list, i), key))
            return NULL;
    return key;
}

static json_t *find_item(const json_t *list, const char *key, const char *id)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        const char *other = id_of(item, key);
        if (other && !strcmp(other, id))
            return item;
    }
    return NULL;
}

/* True for fields that the server itself sets, which have no owner. */
static bool is_of_the_server(const struct cursor *p)
{
    static const char *const names[] = {
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.deletionTimestamp",
        "metadata.managedFields",
        "metadata.deletionGracePeriodSeconds",
        "metadata.generateName",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcmp(names[i], sb_str(&p->plain)))
            return true;
    return false;
}

/* ---- leaves ---- */

static void add_leaves(struct cursor *p, const json_t *node, json_t *leaves);

static void add_members(struct cursor *p, const json_t *node, json_t *leaves)
{
    const char *name;
    json_t *value;
    json_object_foreach(fake_readable(node), name, value) {
        struct mark m = here(p);
        enter_member(p, name);
        if (!is_of_the_server(p) && !json_is_null(value))
            add_leaves(p, value, leaves);
        leave(p, m);
    }
}

static void add_items(struct cursor *p, const json_t *list, const char *key, json_t *leaves)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        struct mark m = here(p);
        enter_item(p, key, id_of(item, key));
        (void)json_object_set_new(leaves, sb_str(&p->path), json_true());
        if (json_is_object(item))
            add_members(p, item, leaves);
        leave(p, m);
    }
}

static void add_leaves(struct cursor *p, const json_t *node, json_t *leaves)
{
    const char *key = merge_key(p, node);
    if (json_is_object(node) && json_object_size(node))
        add_members(p, node, leaves);
    else if (key && json_array_size(node))
        add_items(p, node, key, leaves);
    else
        (void)json_object_set(leaves, sb_str(&p->path), fake_readable(node));
}

/* path → value of every leaf, and path → true of every item of a list map. New reference. */
static json_t *leaves_of(const struct fake_schema *schema, const json_t *obj)
{
    auto_cursor struct cursor p = cursor_new(schema);
    json_t *leaves = json_object();
    if (json_is_object(obj))
        add_members(&p, obj, leaves);
    return leaves;
}

/* ---- merging ---- */

static json_t *merge(struct cursor *p, const json_t *live, const json_t *applied);

static json_t *merge_objects(struct cursor *p, const json_t *live, const json_t *applied)
{
    json_t *result = json_deep_copy(live);
    const char *name;
    json_t *value;
    json_object_foreach(fake_readable(applied), name, value) {
        if (json_is_null(value))
            continue;
        struct mark m = here(p);
        enter_member(p, name);
        if (!is_of_the_server(p))
            (void)json_object_set_new(result, name, merge(p, json_object_get(live, name), value));
        leave(p, m);
    }
    return result;
}

static json_t *merge_lists(struct cursor *p, const json_t *live, const json_t *applied,
                           const char *key)
{
    json_t *result = json_deep_copy(live);
    for (size_t i = 0; i < json_array_size(applied); i++) {
        const json_t *item = json_array_get(applied, i);
        json_t *there = find_item(result, key, id_of(item, key));
        if (!there) {
            (void)json_array_append_new(result, json_deep_copy(item));
        } else if (json_is_object(there)) {
            auto_json json_t *merged = merge(p, there, item);
            (void)json_object_update(there, merged);
        }
    }
    return result;
}

static json_t *merge(struct cursor *p, const json_t *live, const json_t *applied)
{
    if (json_is_object(live) && json_is_object(applied))
        return merge_objects(p, live, applied);
    const char *key = merge_key(p, applied);
    if (key && json_is_array(live) && merge_key(p, live))
        return merge_lists(p, live, applied, key);
    return json_deep_copy(applied);
}

/* ---- removing ---- */

static bool is_empty(const json_t *value)
{
    return (json_is_object(value) && !json_object_size(value)) ||
           (json_is_array(value) && !json_array_size(value));
}

static void prune(struct cursor *p, json_t *node, const json_t *gone);

/* Removes the member when its path is listed, or when pruning emptied it. */
static void prune_member(struct cursor *p, json_t *object, const char *name, json_t *value,
                         const json_t *gone)
{
    struct mark m = here(p);
    enter_member(p, name);
    bool was_empty = is_empty(value);
    if (!json_object_get(gone, sb_str(&p->path)))
        prune(p, value, gone);
    if (json_object_get(gone, sb_str(&p->path)) || (is_empty(value) && !was_empty))
        (void)json_object_del(object, name);
    leave(p, m);
}

static void prune_items(struct cursor *p, json_t *list, const char *key, const json_t *gone)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        json_t *item = json_array_get(list, i);
        struct mark m = here(p);
        enter_item(p, key, id_of(item, key));
        bool listed = json_object_get(gone, sb_str(&p->path));
        if (!listed)
            prune(p, item, gone);
        leave(p, m);
        if (listed)
            (void)json_array_remove(list, i);
    }
}

static void prune(struct cursor *p, json_t *node, const json_t *gone)
{
    const char *key = merge_key(p, node);
    if (key)
        prune_items(p, node, key, gone);
    void *next;
    const char *name;
    json_t *value;
    json_object_foreach_safe(node, next, name, value)
        prune_member(p, node, name, value, gone);
}

/* ---- ownership ---- */

static struct fake_owner *find_owner(struct fake_owners *owners, const struct fake_writer *who)
{
    for (size_t i = 0; i < owners->count; i++) {
        struct fake_owner *o = &owners->items[i];
        if (o->applies == who->applies && o->status == who->status &&
            !strcmp(o->manager, who->manager))
            return o;
    }
    return NULL;
}

static struct fake_owner *find_or_add_owner(struct fake_owners *owners,
                                            const struct fake_writer *who)
{
    struct fake_owner *o = find_owner(owners, who);
    if (o)
        return o;
    o = XPUSH(owners->items, owners->count);
    *o = (struct fake_owner){.manager = xstrdup(who->manager),
                             .applies = who->applies,
                             .status = who->status,
                             .paths = json_object()};
    return o;
}

/* True when the path has another owner than this one. */
static bool is_shared(const struct fake_owners *owners, const struct fake_owner *but,
                      const char *path)
{
    for (size_t i = 0; i < owners->count; i++)
        if (&owners->items[i] != but && json_object_get(owners->items[i].paths, path))
            return true;
    return false;
}

static void disown(struct fake_owners *owners, const struct fake_owner *but, const char *path)
{
    for (size_t i = 0; i < owners->count; i++)
        if (&owners->items[i] != but)
            (void)json_object_del(owners->items[i].paths, path);
}

/* Paths with another owner and another value. New reference: path → that owner's name. */
static json_t *find_conflicts(const struct fake_owners *owners, const struct fake_owner *own,
                              const json_t *live, const json_t *wanted)
{
    json_t *conflicts = json_object();
    const char *path;
    json_t *value;
    json_object_foreach(fake_readable(wanted), path, value) {
        if (json_equal(json_object_get(live, path), value))
            continue;
        for (size_t i = 0; i < owners->count; i++)
            if (&owners->items[i] != own && json_object_get(owners->items[i].paths, path))
                (void)json_object_set_new(conflicts, path, json_string(owners->items[i].manager));
    }
    return conflicts;
}

static int refuse(const json_t *conflicts, struct err *e)
{
    auto_sb struct sb text = SB_INIT(65536);
    const char *path;
    json_t *rival;
    json_object_foreach(fake_readable(conflicts), path, rival) {
        sb_addf(&text, "%sconflict with \"%s\": %s", text.len ? "; " : "", json_string_value(rival),
                path);
    }
    int rc = err_set(e, ERR_CONFLICT, "Apply failed with %zu conflicts: %s",
                     json_object_size(conflicts), sb_str(&text));
    if (e) {
        e->http_status = 409;
        e->reason = "FieldManagerConflict";
    }
    return rc;
}

/* True when one of the paths is below this one: then the member is still applied. */
static bool has_below(const json_t *paths, const char *above)
{
    size_t n = strlen(above);
    const char *path;
    json_t *value;
    json_object_foreach(fake_readable(paths), path, value) {
        if (!strncmp(path, above, n) && (path[n] == '.' || path[n] == '['))
            return true;
    }
    return false;
}

/* Paths that this manager applied before, does not apply now, and that have no other owner. New
 * reference. */
static json_t *find_gone(const struct fake_owners *owners, const struct fake_owner *own,
                         const json_t *wanted)
{
    json_t *gone = json_object();
    const char *path;
    json_t *value;
    json_object_foreach(own->paths, path, value) {
        if (!json_object_get(wanted, path) && !has_below(wanted, path) &&
            !is_shared(owners, own, path))
            (void)json_object_set(gone, path, value);
    }
    return gone;
}

/* The wanted paths become a manager's set; returns whether that changes it. */
static bool set_paths(struct fake_owner *own, const json_t *wanted)
{
    json_t *paths = json_object();
    const char *path;
    json_t *value;
    json_object_foreach(fake_readable(wanted), path, value)
        (void)json_object_set_new(paths, path, json_true());
    bool changed = !json_equal(own->paths, paths);
    json_decref(own->paths);
    own->paths = paths;
    return changed;
}

int fake_apply(const struct fake_schema *schema, struct fake_owners *owners,
               const struct fake_writer *who, const json_t *live, const json_t *applied,
               json_t **ret_obj, bool *ret_owned, struct err *e)
{
    auto_json json_t *wanted = leaves_of(schema, applied);
    auto_json json_t *present = leaves_of(schema, live);
    struct fake_owner *own = find_or_add_owner(owners, who);
    auto_json json_t *conflicts = find_conflicts(owners, own, present, wanted);
    if (json_object_size(conflicts) && !who->force)
        return refuse(conflicts, e);
    const char *path;
    json_t *rival;
    json_object_foreach(conflicts, path, rival)
        disown(owners, own, path);

    auto_json json_t *gone = find_gone(owners, own, wanted);
    auto_cursor struct cursor p = cursor_new(schema);
    json_t *result = live ? merge(&p, live, applied) : json_deep_copy(applied);
    leave(&p, (struct mark){0, 0});
    prune(&p, result, gone);
    *ret_owned = set_paths(own, wanted) || json_object_size(conflicts);
    *ret_obj = result;
    return 0;
}

void fake_update_owners(const struct fake_schema *schema, struct fake_owners *owners,
                        const struct fake_writer *who, const json_t *before, const json_t *after)
{
    auto_json json_t *old = leaves_of(schema, before);
    auto_json json_t *new = leaves_of(schema, after);
    const struct fake_owner *own = find_or_add_owner(owners, who);
    const char *path;
    json_t *value;
    json_object_foreach(new, path, value) {
        if (json_equal(json_object_get(old, path), value))
            continue;
        disown(owners, own, path);
        (void)json_object_set_new(own->paths, path, json_true());
    }
    json_object_foreach(old, path, value) {
        if (!json_object_get(new, path))
            disown(owners, /* but= */ NULL, path);
    }
}

/* ---- managedFields ---- */

static json_t *fields_of(struct cursor *p, const json_t *node, const json_t *paths);

static void set_fields(json_t *fields, const char *kind, const char *name, json_t *inner)
{
    auto_free char *key = xasprintf("%s:%s", kind, name);
    if (inner)
        (void)json_object_set_new(fields, key, inner);
}

static void add_item_fields(struct cursor *p, const json_t *list, const char *key,
                            const json_t *paths, json_t *fields)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *id = id_of(item, key);
        struct mark m = here(p);
        enter_item(p, key, id);
        auto_json json_t *name = *key ? json_pack("{s:s}", key, id) : json_string(id);
        auto_free char *text = json_dumps(name, JSON_COMPACT | JSON_ENCODE_ANY);
        set_fields(fields, *key ? "k" : "v", text, fields_of(p, item, paths));
        leave(p, m);
    }
}

/* fieldsV1 of the paths that lie in node, or NULL when none does. New reference. */
static json_t *fields_of(struct cursor *p, const json_t *node, const json_t *paths)
{
    const char *key = merge_key(p, node);
    auto_json json_t *fields = json_object();
    bool owned = json_object_get(paths, sb_str(&p->path));
    if (key)
        add_item_fields(p, node, key, paths, fields);
    const char *name;
    json_t *value;
    json_object_foreach(fake_readable(node), name, value) {
        struct mark m = here(p);
        enter_member(p, name);
        set_fields(fields, "f", name, fields_of(p, value, paths));
        leave(p, m);
    }
    return owned || json_object_size(fields) ? TAKE(fields) : NULL;
}

static bool is_named(const char *path)
{
    static const char *const parts[] = {".metadata.labels", ".metadata.annotations", ".spec"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strncmp(path, parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}

/* New reference. */
static json_t *named_of(const json_t *paths)
{
    json_t *some = json_object();
    const char *path;
    json_t *value;
    json_object_foreach(fake_readable(paths), path, value) {
        if (is_named(path))
            (void)json_object_set(some, path, value);
    }
    return some;
}

void fake_note_managers(const struct fake_schema *schema, const struct fake_owners *owners,
                        json_t *obj)
{
    auto_json json_t *list = json_array();
    for (size_t i = 0; i < owners->count; i++) {
        const struct fake_owner *o = &owners->items[i];
        auto_cursor struct cursor p = cursor_new(schema);
        auto_json json_t *paths = o->applies ? json_incref(o->paths) : named_of(o->paths);
        auto_json json_t *fields = fields_of(&p, obj, paths);
        if (!fields)
            continue;
        json_t *entry = json_pack("{s:s, s:s, s:s, s:O}", "manager", o->manager, "operation",
                                  o->applies ? "Apply" : "Update", "fieldsType", "FieldsV1",
                                  "fieldsV1", fields);
        if (o->status)
            (void)json_object_set_new(entry, "subresource", json_string("status"));
        (void)json_array_append_new(list, entry);
    }
    json_t *meta = json_object_get(obj, "metadata");
    if (json_array_size(list))
        (void)json_object_set(meta, "managedFields", list);
    else
        (void)json_object_del(meta, "managedFields");
}

void fake_owners_done(struct fake_owners *owners)
{
    for (size_t i = 0; i < owners->count; i++) {
        free(owners->items[i].manager);
        json_decref(owners->items[i].paths);
    }
    free(owners->items);
    *owners = (struct fake_owners){0};
}

void fake_schema_done(struct fake_schema *schema)
{
    for (size_t i = 0; i < schema->count; i++) {
        free(schema->keys[i].path);
        free(schema->keys[i].key);
    }
    free(schema->keys);
    *schema = (struct fake_schema){0};
}
