/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"
#include "kubeclient/store.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};

static int transform(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    *ret = xstrdup(JX_STR_AT(obj, "pool"));
    return 0;
}

static const struct object_type node_type = {&nodes, transform, free};

static struct object *make(const char *name, const char *uid, const char *version, const char *pool)
{
    auto_json json_t *doc = json_pack("{s:{s:s,s:s,s:s},s:s}", "metadata", "name", name, "uid", uid,
                                      "resourceVersion", version, "pool", pool);
    struct object *o = NULL;
    cr_assert_eq(object_new(&node_type, doc, &o, NULL), 0);
    return o;
}

static void put(struct store *st, const char *name, const char *version, const char *pool)
{
    auto_object struct object *o = make(name, "u", version, pool);
    struct object *before = NULL;
    store_put(st, o, &before);
    (void)object_unref(before);
}

/* A pool "a,b" stands in two buckets, "" in none. */
static void index_pool(const struct object *o, struct store_index_out *out)
{
    auto_free char *text = xstrdup(object_payload(o));
    char *rest = text;
    for (char *one; (one = strsep(&rest, ","));)
        if (*one)
            store_index_emit(out, one);
}

static struct store *new_indexed(void)
{
    struct store *st = store_new();
    store_add_index(st, "pool", index_pool);
    return st;
}

static size_t count_in(struct store *st, const char *pool)
{
    auto_object_list struct object_list found = {0};
    store_by_index(st, "pool", pool, &found);
    return found.count;
}

Test(store, returns_references_that_outlive_removal)
{
    auto_store struct store *st = store_new();
    put(st, "a", "1", "x");
    const struct object_key k = {.name = "a"};
    auto_object struct object *o = store_get(st, &k);
    (void)object_unref(store_remove(st, &k, "2"));
    cr_assert_null(store_get(st, &k));
    cr_assert_str_eq(object_payload(o), "x");
}

Test(store, put_returns_the_object_that_stood_there)
{
    auto_store struct store *st = store_new();
    put(st, "a", "1", "x");
    auto_object struct object *newer = make("a", "u", "2", "x");
    struct object *before = NULL;
    store_put(st, newer, &before);
    cr_assert_str_eq(object_version(before), "1");
    cr_assert_eq(store_count(st), 1);
    (void)object_unref(before);
}

Test(store, indexes_follow_every_change)
{
    auto_store struct store *st = new_indexed();
    put(st, "a", "1", "x");
    put(st, "b", "2", "x,y");
    cr_assert_eq(count_in(st, "x"), 2);
    cr_assert_eq(count_in(st, "y"), 1);
    put(st, "a", "3", "y");
    cr_assert_eq(count_in(st, "x"), 1);
    cr_assert_eq(count_in(st, "y"), 2);
    (void)object_unref(store_remove(st, &(struct object_key){.name = "b"}, "4"));
    cr_assert_eq(count_in(st, "x"), 0);
    cr_assert_eq(count_in(st, "y"), 1);
    put(st, "a", "5", "");
    cr_assert_eq(count_in(st, "y"), 0);
}

Test(store, a_value_emitted_twice_lists_the_object_once)
{
    auto_store struct store *st = new_indexed();
    put(st, "a", "1", "x,x");
    cr_assert_eq(count_in(st, "x"), 1);
    put(st, "a", "2", "");
    cr_assert_eq(count_in(st, "x"), 0);
}

Test(store, knows_which_versions_it_has_seen)
{
    auto_store struct store *st = store_new();
    cr_assert_not(store_has_seen(st, "1"));
    put(st, "a", "99", "x");
    cr_assert(store_has_seen(st, "99"));
    cr_assert_not(store_has_seen(st, "100"));
    store_advance(st, "100");
    cr_assert(store_has_seen(st, "100"));
    auto_free char *version = store_version(st);
    cr_assert_str_eq(version, "100");
    cr_assert_eq(store_rewinds(st), 0);
}

/* Deltas as text: "+name" added, "-name" deleted, "~name" changed. */
static char *delta_text(const struct store_deltas *d)
{
    auto_sb struct sb b = SB_INIT(1000);
    for (size_t i = 0; i < d->count; i++) {
        const struct object *after = d->items[i].after;
        const struct object *any = after ? after : d->items[i].before;
        sb_addf(&b, "%c%s ", !after ? '-' : d->items[i].before ? '~' : '+', object_name(any));
    }
    return sb_take(&b);
}

static char *replace(struct store *st, struct object **items, size_t count, const char *version)
{
    auto_store_deltas struct store_deltas deltas = {0};
    store_replace(st, &(struct object_list){.items = items, .count = count}, version, &deltas);
    for (size_t i = 0; i < count; i++)
        (void)object_unref(items[i]);
    return delta_text(&deltas);
}

Test(store, replace_yields_only_what_differs)
{
    auto_store struct store *st = new_indexed();
    put(st, "gone", "1", "x");
    put(st, "same", "2", "x");
    put(st, "newer", "3", "x");
    struct object *all[] = {make("same", "u", "2", "x"), make("newer", "u", "9", "y")};
    auto_free char *told = replace(st, all, ARRAY_LEN(all), "10");
    cr_assert_str_eq(told, "-gone ~newer ");
    cr_assert_eq(count_in(st, "x"), 1);
    cr_assert_eq(count_in(st, "y"), 1);
    cr_assert(store_has_seen(st, "10"));
}

Test(store, replace_tells_a_namesake_from_its_predecessor)
{
    auto_store struct store *st = store_new();
    put(st, "a", "1", "x");
    struct object *all[] = {make("a", "another", "5", "x")};
    auto_free char *told = replace(st, all, ARRAY_LEN(all), "5");
    cr_assert_str_eq(told, "-a +a ");
}

Test(store, replace_takes_the_last_of_two_with_one_key)
{
    auto_store struct store *st = store_new();
    struct object *all[] = {make("a", "u", "1", "x"), make("a", "u", "2", "x")};
    auto_free char *told = replace(st, all, ARRAY_LEN(all), "5");
    auto_object struct object *o = store_get(st, &(struct object_key){.name = "a"});
    cr_assert_str_eq(told, "+a ");
    cr_assert_str_eq(object_version(o), "2");
}

Test(store, counts_when_versions_jump_back)
{
    auto_store struct store *st = store_new();
    put(st, "a", "100", "x");
    auto_free char *told = replace(st, NULL, 0, "40");
    cr_assert_str_eq(told, "-a ");
    cr_assert_eq(store_rewinds(st), 1);
    cr_assert_not(store_has_seen(st, "41"));
}

Test(store, lists_everything)
{
    auto_store struct store *st = store_new();
    put(st, "a", "1", "x");
    put(st, "b", "2", "x");
    auto_object_list struct object_list all = {0};
    store_list(st, &all);
    cr_assert_eq(all.count, 2);
}
