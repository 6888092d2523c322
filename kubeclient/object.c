/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/object.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

/* One allocation: the strings are stored after the struct, one after the other. */
struct object {
    atomic_int refs;
    bool deleting;
    int64_t generation;
    const struct object_type *type;
    void *payload;
    const char *ns, *name, *uid, *version; /* into text */
    char text[];
};

static const char *text_or_empty(const json_t *meta, const char *field)
{
    const char *s = JX_STR_AT(meta, field);
    return s ? s : "";
}

static const char *append(char **at, const char *s)
{
    char *start = *at;
    *at = stpcpy(start, s) + 1;
    return start;
}

static struct object *from_meta(const struct object_type *type, const json_t *meta)
{
    const char *ns = text_or_empty(meta, "namespace");
    const char *name = text_or_empty(meta, "name");
    const char *uid = text_or_empty(meta, "uid");
    const char *version = text_or_empty(meta, "resourceVersion");
    size_t bytes = strlen(ns) + strlen(name) + strlen(uid) + strlen(version) + 4;

    struct object *o = xmalloc(sizeof(*o) + bytes);
    atomic_init(&o->refs, 1);
    o->type = type;
    o->generation = json_integer_value(JX_AT(meta, "generation"));
    o->deleting = json_is_string(JX_AT(meta, "deletionTimestamp"));
    char *at = o->text;
    o->ns = append(&at, ns);
    o->name = append(&at, name);
    o->uid = append(&at, uid);
    o->version = append(&at, version);
    return o;
}

static int begin(const struct object_type *type, const json_t *obj, struct object **ret,
                 struct err *e)
{
    assert(type);
    const json_t *meta = JX_AT(obj, "metadata");
    if (!*text_or_empty(meta, "name"))
        return err_set(e, ERR_PROTOCOL, "an object without metadata.name");
    *ret = from_meta(type, meta);
    return 0;
}

int object_new(const struct object_type *type, const json_t *obj, struct object **ret,
               struct err *e)
{
    auto_object struct object *o = NULL;
    TRY(begin(type, obj, &o, e));
    if (type->transform)
        TRY(type->transform(obj, &o->payload, e));
    *ret = TAKE(o);
    return 0;
}

int object_of(const struct object_type *type, const json_t *obj, void *payload_take,
              struct object **ret, struct err *e)
{
    int rc = begin(type, obj, ret, e);
    if (rc < 0)
        type->free_payload(payload_take);
    else
        (*ret)->payload = payload_take;
    return rc;
}

struct object *object_ref(struct object *o)
{
    int before = atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return o;
}

struct object *object_unref(struct object *o)
{
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) > 1)
        return NULL;
    if (o->payload && o->type->free_payload)
        o->type->free_payload(o->payload);
    free(o);
    return NULL;
}

const void *object_payload(const struct object *o)
{
    return o->payload;
}

struct object_key object_key(const struct object *o)
{
    return (struct object_key){.ns = o->ns, .name = o->name};
}

const char *object_name(const struct object *o)
{
    return o->name;
}

const char *object_uid(const struct object *o)
{
    return o->uid;
}

const char *object_version(const struct object *o)
{
    return o->version;
}

int64_t object_generation(const struct object *o)
{
    return o->generation;
}

bool object_is_deleting(const struct object *o)
{
    return o->deleting;
}

const struct kc_resource *object_resource(const struct object *o)
{
    return o->type->resource;
}

void object_list_done(struct object_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        (void)object_unref(l->items[i]);
    free(l->items);
    *l = (struct object_list){0};
}

static const char *ns_of(const struct object_key *k)
{
    return k->ns ? k->ns : "";
}

char *object_key_text(const struct object_key *k)
{
    const char *ns = ns_of(k);
    return *ns ? xasprintf("%s/%s", ns, k->name) : xstrdup(k->name);
}

bool object_key_equal(const struct object_key *a, const struct object_key *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(ns_of(a), ns_of(b)) == 0;
}

static bool is_number(const char *s)
{
    return *s >= '1' && *s <= '9' && s[strspn(s, "0123456789")] == '\0';
}

int resource_version_compare(const char *a, const char *b)
{
    bool a_good = is_number(a);
    bool b_good = is_number(b);
    if (!a_good || !b_good)
        return (int)a_good - (int)b_good;
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1;
    return strcmp(a, b);
}
