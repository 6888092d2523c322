/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer and several readers on a store: readers see whole objects, which live as long as they
 * hold them, and indexes that agree with the objects they return.
 */
#include "kubeclient/store.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"

#define NAMES   20
#define ROUNDS  3000
#define READERS 3

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};
static struct store *st;
static atomic_bool done;

static int transform(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    *ret = xstrdup(JX_STR_AT(obj, "metadata", "resourceVersion"));
    return 0;
}

static const struct object_type type = {&nodes, transform, free};

static struct object *make(int name, int version)
{
    char n[16];
    char v[16];
    (void)snprintf(n, sizeof(n), "n%d", name);
    (void)snprintf(v, sizeof(v), "%d", version);
    auto_json json_t *doc =
        json_pack("{s:{s:s,s:s,s:s}}", "metadata", "name", n, "uid", "u", "resourceVersion", v);
    struct object *o = NULL;
    assert(object_new(&type, doc, &o, NULL) == 0);
    return o;
}

static const char *parity(const struct object *o)
{
    const char *v = object_version(o);
    return (v[strlen(v) - 1] - '0') % 2 ? "odd" : "even";
}

static void index_parity(const struct object *o, struct store_index_out *out)
{
    store_index_emit(out, parity(o));
}

static void replace(int version)
{
    struct object *items[NAMES / 2];
    for (int i = 0; i < NAMES / 2; i++)
        items[i] = make(i, version);
    auto_store_deltas struct store_deltas deltas = {0};
    store_replace(st, &(struct object_list){.items = items, .count = NAMES / 2}, "1", &deltas);
    for (int i = 0; i < NAMES / 2; i++)
        (void)object_unref(items[i]);
}

static void *write_all(void *arg)
{
    (void)arg;
    for (int i = 1; i <= ROUNDS; i++) {
        struct object *before = NULL;
        auto_object struct object *o = make(i % NAMES, i);
        const struct object_key k = object_key(o);
        store_put(st, o, &before);
        (void)object_unref(before);
        if (i % 7 == 0)
            (void)object_unref(store_remove(st, &k, NULL));
        if (i % 500 == 0)
            replace(i);
    }
    atomic_store(&done, true);
    return NULL;
}

static void check(const struct object_list *l, const char *expected_parity)
{
    for (size_t i = 0; i < l->count; i++) {
        assert(strcmp(object_payload(l->items[i]), object_version(l->items[i])) == 0);
        assert(!expected_parity || strcmp(parity(l->items[i]), expected_parity) == 0);
    }
}

static void *read_all(void *arg)
{
    (void)arg;
    while (!atomic_load(&done)) {
        auto_object_list struct object_list all = {0};
        auto_object_list struct object_list odd = {0};
        auto_object struct object *one = store_get(st, &(struct object_key){.name = "n3"});
        store_list(st, &all);
        store_by_index(st, "parity", "odd", &odd);
        assert(!one || strcmp(object_name(one), "n3") == 0);
        check(&all, NULL);
        check(&odd, "odd");
        (void)store_has_seen(st, "100");
    }
    return NULL;
}

int main(void)
{
    pthread_t writer;
    pthread_t readers[READERS];
    st = store_new();
    store_add_index(st, "parity", index_parity);
    for (int i = 0; i < READERS; i++)
        (void)pthread_create(&readers[i], NULL, read_all, NULL);
    (void)pthread_create(&writer, NULL, write_all, NULL);
    (void)pthread_join(writer, NULL);
    for (int i = 0; i < READERS; i++)
        (void)pthread_join(readers[i], NULL);
    (void)store_free(st);
    return 0;
}
