/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/expectations.h"

#include "base/strmap.h"
#include "base/xalloc.h"

/* One version that a store must reach. */
struct awaited {
    struct store *store;
    char *version;
    unsigned rewinds; /* of the store, at the time of the write */
};

/* The open writes of one key; one entry for each store. */
struct open_writes {
    struct awaited *items;
    size_t count;
};

struct expectations {
    pthread_mutex_t mu;
    struct strmap *by_key; /* guarded by mu: key text → struct open_writes */
};

struct expectations *expectations_new(void)
{
    struct expectations *x = xmalloc(sizeof(*x));
    (void)pthread_mutex_init(&x->mu, NULL);
    x->by_key = strmap_new();
    return x;
}

static void open_writes_free(struct open_writes *w)
{
    for (size_t i = 0; w && i < w->count; i++)
        free(w->items[i].version);
    if (w)
        free(w->items);
    free(w);
}

static struct awaited *awaited_of(struct open_writes *w, struct store *st)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->items[i].store == st)
            return &w->items[i];
    struct awaited *a = XPUSH(w->items, w->count);
    *a = (struct awaited){.store = st, .version = xstrdup("")};
    return a;
}

void expectations_wrote(struct expectations *x, const struct object_key *k, struct store *st,
                        const char *resource_version)
{
    auto_free char *text = object_key_text(k);
    unsigned rewinds = store_rewinds(st);
    HOLD(&x->mu);
    struct open_writes *w = strmap_get(x->by_key, text);
    if (!w) {
        w = xmalloc(sizeof(*w));
        (void)strmap_put(x->by_key, text, w);
    }
    struct awaited *a = awaited_of(w, st);
    if (a->rewinds == rewinds && resource_version_compare(resource_version, a->version) <= 0)
        return;
    xstr_set(&a->version, resource_version);
    a->rewinds = rewinds;
}

/* When a store's versions went back after the write, the server lost that version with its data. */
static bool is_met(const struct awaited *a)
{
    return store_has_seen(a->store, a->version) || store_rewinds(a->store) != a->rewinds;
}

static bool all_met(const struct open_writes *w)
{
    for (size_t i = 0; i < w->count; i++)
        if (!is_met(&w->items[i]))
            return false;
    return true;
}

bool expectations_met(struct expectations *x, const struct object_key *k)
{
    auto_free char *text = object_key_text(k);
    HOLD(&x->mu);
    struct open_writes *w = strmap_get(x->by_key, text);
    if (!w)
        return true;
    if (!all_met(w))
        return false;
    open_writes_free(strmap_remove(x->by_key, text));
    return true;
}

void expectations_forget(struct expectations *x, const struct object_key *k)
{
    auto_free char *text = object_key_text(k);
    HOLD(&x->mu);
    open_writes_free(strmap_remove(x->by_key, text));
}

struct expectations *expectations_free(struct expectations *x)
{
    if (!x)
        return NULL;
    size_t pos = 0;
    void *w;
    while (strmap_next(x->by_key, &pos, &(const char *){NULL}, &w))
        open_writes_free(w);
    (void)strmap_free(x->by_key);
    (void)pthread_mutex_destroy(&x->mu);
    free(x);
    return NULL;
}
