/* SPDX-License-Identifier: Apache-2.0 */
#include "mutation_support.h"

#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

enum { LONG_BYTES = 70000, ENTRIES = 2 };

/* --- What can happen to a value --- */

enum how {
    REMOVED,
    NULLED,
    OF_OTHER_TYPE,
    OF_OTHER_SHAPE,
    EMPTY,
    HUGE_,
    LOWEST,
    FRACTION,
    DOUBLED,
    FIRST_BIT,
    MIDDLE_BIT,
    LAST_BIT,
    SWAPPED,
    SWAPPED_AGAIN,
    N_HOW,
};

static const char *const names[N_HOW] = {
    "removed",         "null",
    "of another type", "of another shape",
    "empty",           "huge",
    "negative",        "a fraction",
    "doubled",         "first bit flipped",
    "bit flipped",     "last bit flipped",
    "swapped",         "swapped with another",
};

/* Stays ASCII, so that it stays JSON. */
static json_t *flipped(const json_t *text, size_t at, int bit)
{
    auto_free char *s = xstrdup(json_string_value(text));
    s[at] = (char)(s[at] ^ bit);
    return s[at] ? json_string(s) : NULL;
}

static json_t *mutated_text(const json_t *v, enum how how)
{
    size_t len = json_string_length(v);
    if (how == EMPTY)
        return len ? json_string("") : NULL;
    if (how == HUGE_) {
        auto_free char *s = xmalloc(LONG_BYTES + 1);
        memset(s, 'a', LONG_BYTES);
        s[LONG_BYTES] = '\0';
        return json_string(s);
    }
    if (!len)
        return NULL;
    switch ((int)how) {
    case FIRST_BIT:
        return flipped(v, 0, 0x01);
    case MIDDLE_BIT:
        return flipped(v, len / 2, 0x02);
    case LAST_BIT:
        return flipped(v, len - 1, 0x01);
    default:
        return NULL;
    }
}

static json_t *mutated_number(enum how how)
{
    switch ((int)how) {
    case EMPTY:
        return json_integer(0);
    case HUGE_:
        return json_integer(INT64_MAX);
    case LOWEST:
        return json_integer(-1);
    case FRACTION:
        return json_real(1.5);
    case DOUBLED:
        return json_real(1e308);
    default:
        return NULL;
    }
}

static json_t *mutated_list(const json_t *v, enum how how)
{
    if (how == EMPTY)
        return json_array_size(v) ? json_array() : NULL;
    if (how != DOUBLED || json_array_size(v) == 0)
        return NULL;
    json_t *twice = json_deep_copy(v);
    (void)json_array_append_new(twice, json_deep_copy(json_array_get(v, 0)));
    return twice;
}

/* NULL: this cannot happen to it. */
static json_t *mutated(const json_t *v, const json_t *const donors[], enum how how)
{
    if (how == SWAPPED || how == SWAPPED_AGAIN) {
        const json_t *d = donors[how - SWAPPED];
        return json_is_string(v) && json_is_string(d) && !json_equal(v, d) ? json_deep_copy(d)
                                                                           : NULL;
    }
    if (how == NULLED)
        return json_null();
    if (how == OF_OTHER_TYPE)
        return json_is_string(v) ? json_integer(7) : json_string("text");
    if (how == OF_OTHER_SHAPE)
        return json_is_object(v) ? json_array() : json_object();
    if (json_is_string(v))
        return mutated_text(v, how);
    if (json_is_number(v))
        return mutated_number(how);
    if (json_is_array(v))
        return mutated_list(v, how);
    if (json_is_object(v))
        return how == EMPTY && json_object_size(v) ? json_object() : NULL;
    return how == FIRST_BIT ? json_boolean(!json_is_true(v)) : NULL;
}

/* --- Which of them --- */

struct count {
    size_t left;
    char *what; /* grows to the left on the way back */
};

static void prepend(struct count *c, char *step_take)
{
    char *longer = xasprintf("%s%s", step_take, c->what);
    free(c->what);
    free(step_take);
    c->what = longer;
}

static bool mutate_in(json_t *v, const json_t *const donors[], struct count *c);

/* Is it the turn of one of this value's own? Then *ret is what comes in its place, NULL: nothing.
 */
static bool is_turn(const json_t *v, const json_t *const donors[], struct count *c, json_t **ret)
{
    for (int how = REMOVED; how < N_HOW; how++) {
        if (how == HUGE_ && json_is_string(v) && c->left > 0) {
            c->left--; /* a large text is made only where it is needed */
            continue;
        }
        json_t *new = how == REMOVED ? NULL : mutated(v, donors, (enum how)how);
        if (how != REMOVED && !new)
            continue;
        if (c->left-- == 0) {
            c->what = xasprintf(" %s", names[how]);
            *ret = new;
            return true;
        }
        json_decref(new);
    }
    return false;
}

static bool mutate_field(json_t *obj, const char *key, json_t *value, const json_t *const donors[],
                         struct count *c)
{
    json_t *new;
    if (!is_turn(value, donors, c, &new))
        return mutate_in(value, donors, c);
    if (new)
        (void)json_object_set_new(obj, key, new);
    else
        (void)json_object_del(obj, key);
    return true;
}

static bool mutate_fields(json_t *obj, const json_t *const donors[], struct count *c)
{
    const char *key;
    json_t *value;
    json_object_foreach(obj, key, value) {
        const json_t *theirs[MUTATION_DONORS];
        auto_free char *step = xasprintf(".%s", key);
        for (size_t i = 0; i < MUTATION_DONORS; i++)
            theirs[i] = json_object_get(donors[i], key);
        if (mutate_field(obj, step + 1, value, theirs, c)) {
            prepend(c, TAKE(step));
            return true;
        }
    }
    return false;
}

static bool mutate_entry(json_t *list, size_t i, const json_t *const donors[], struct count *c)
{
    json_t *new;
    json_t *value = json_array_get(list, i);
    if (!is_turn(value, donors, c, &new))
        return mutate_in(value, donors, c);
    if (new)
        (void)json_array_set_new(list, i, new);
    else
        (void)json_array_remove(list, i);
    return true;
}

static bool mutate_entries(json_t *list, const json_t *const donors[], struct count *c)
{
    for (size_t i = 0; i < json_array_size(list) && i < ENTRIES; i++) {
        const json_t *theirs[MUTATION_DONORS];
        for (size_t k = 0; k < MUTATION_DONORS; k++)
            theirs[k] = json_array_get(donors[k], i);
        if (mutate_entry(list, i, theirs, c)) {
            prepend(c, xasprintf("[%zu]", i));
            return true;
        }
    }
    return false;
}

static bool mutate_in(json_t *v, const json_t *const donors[], struct count *c)
{
    if (json_is_object(v))
        return mutate_fields(v, donors, c);
    return json_is_array(v) && mutate_entries(v, donors, c);
}

json_t *mutation_of(const json_t *doc, const json_t *const donors[MUTATION_DONORS], size_t n,
                    char **ret_what)
{
    auto_json json_t *copy = json_deep_copy(doc);
    struct count c = {.left = n};
    if (!mutate_in(copy, donors, &c))
        return NULL;
    *ret_what = c.what;
    return TAKE(copy);
}

bool mutation_is_of_identity(const char *what)
{
    static const char *const places[] = {".metadata ",           ".metadata.name ",
                                         ".metadata.namespace ", ".metadata.resourceVersion ",
                                         ".metadata.uid ",       ".kind ",
                                         ".apiVersion "};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (strncmp(what, places[i], strlen(places[i])) == 0)
            return true;
    return false;
}

/* --- The client --- */

struct mutator {
    struct kc base; /* first */
    struct kc *inner;
    const struct kc_resource *res; /* NULL: nothing is mutated */
    const char *name;
    size_t n, reads;
    const json_t *donors[MUTATION_DONORS];
};

static struct mutator *mutator_of(struct kc *c)
{
    return (struct mutator *)c;
}

/* New reference: the object as it is to be read. */
static json_t *as_read(struct mutator *m, const struct kc_resource *res, const json_t *obj)
{
    const char *name = JX_STR_AT(obj, "metadata", "name");
    auto_free char *what = NULL;
    json_t *other = NULL;
    if (res == m->res && name && strcmp(name, m->name) == 0) {
        m->reads++;
        other = m->n == MUTATION_NONE ? NULL : mutation_of(obj, m->donors, m->n, &what);
    }
    return other ? other : json_incref((json_t *)(uintptr_t)obj);
}

static int mutator_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                       struct err *e)
{
    auto_json json_t *got = NULL;
    TRY(kc_get(mutator_of(c)->inner, s, t, &got, e));
    if (ret_obj)
        *ret_obj = as_read(mutator_of(c), t->res, got);
    return 0;
}

struct relay {
    struct mutator *m;
    const struct kc_resource *res;
    kc_item_fn *item;
    kc_change_fn *change;
    void *arg;
};

static int relay_item(void *arg, const json_t *obj, struct err *e)
{
    const struct relay *r = arg;
    auto_json json_t *read = as_read(r->m, r->res, obj);
    return r->item(r->arg, read, e);
}

static int relay_change(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    const struct relay *r = arg;
    auto_json json_t *read = as_read(r->m, r->res, obj);
    return r->change(r->arg, change, read, e);
}

static int mutator_list(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                        struct err *e)
{
    struct relay r = {.m = mutator_of(c), .res = t->res, .item = fn, .arg = arg};
    return kc_list_each(mutator_of(c)->inner, s, t, o, relay_item, &r, ret_version, e);
}

static int mutator_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct relay r = {.m = mutator_of(c), .res = t->res, .change = fn, .arg = arg};
    return kc_watch(mutator_of(c)->inner, s, t, o, relay_change, &r, e);
}

static int mutator_create(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return kc_create(mutator_of(c)->inner, s, t, w, ret_obj, e);
}

static int mutator_update(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return kc_update(mutator_of(c)->inner, s, t, w, ret_obj, e);
}

static int mutator_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return kc_patch(mutator_of(c)->inner, s, t, w, ret_obj, e);
}

static int mutator_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                          const struct kc_remove_opts *o, struct err *e)
{
    return kc_remove_with(mutator_of(c)->inner, s, t, o, e);
}

static struct kc *mutator_free(struct kc *c)
{
    free(mutator_of(c));
    return NULL;
}

static const struct kc_ops ops = {
    .get = mutator_get,
    .list = mutator_list,
    .create = mutator_create,
    .update = mutator_update,
    .patch = mutator_patch,
    .remove = mutator_remove,
    .watch = mutator_watch,
    .free = mutator_free,
};

struct kc *mutator_new(struct kc *inner)
{
    struct mutator *m = xmalloc(sizeof(*m));
    *m = (struct mutator){.base = {&ops}, .inner = inner};
    return &m->base;
}

void mutator_order(struct kc *c, const struct kc_resource *res, const char *name, size_t n)
{
    mutator_of(c)->res = res;
    mutator_of(c)->name = name;
    mutator_of(c)->n = n;
    mutator_of(c)->reads = 0;
}

size_t mutator_reads(struct kc *c)
{
    return mutator_of(c)->reads;
}

void mutator_donors(struct kc *c, const json_t *const donors[MUTATION_DONORS])
{
    for (size_t i = 0; i < MUTATION_DONORS; i++)
        mutator_of(c)->donors[i] = donors[i];
}
