/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/breach_ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

struct breach_ledger {
    struct strmap *nodes; /* node → struct keys */
};

/* What a Device had. */
struct keys {
    char **items;
    size_t n;
};

static struct keys *keys_free(struct keys *k)
{
    for (size_t i = 0; k && i < k->n; i++)
        free(k->items[i]);
    free(k ? k->items : NULL);
    free(k);
    return NULL;
}

/* Caller frees. */
static char *key_of(const struct breach_record *b)
{
    return xasprintf("%s/%s/%s/%s/%" PRId64, b->ns, b->pod, b->container ? b->container : "",
                     b->reason, b->since_ms);
}

static bool has(const struct keys *k, const struct breach_record *b)
{
    auto_free char *key = key_of(b);
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->items[i], key) == 0)
            return true;
    return false;
}

struct breach_ledger *breach_ledger_new(void)
{
    struct breach_ledger *l = xmalloc(sizeof(*l));
    l->nodes = strmap_new();
    return l;
}

const struct breach_record **breach_ledger_news(const struct breach_ledger *l, const char *node,
                                                const struct device_record *device,
                                                int64_t fresh_ms, size_t *ret_n)
{
    const struct keys *told = strmap_get(l->nodes, node);
    const struct breach_record **news = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < device->n_cards; i++) {
        for (size_t k = 0; k < device->cards[i].n_breaches; k++) {
            const struct breach_record *b = &device->cards[i].breaches[k];
            if (told ? !has(told, b) : b->since_ms > fresh_ms)
                *XPUSH(news, *ret_n) = b;
        }
    }
    return news;
}

void breach_ledger_note(struct breach_ledger *l, const char *node,
                        const struct device_record *device)
{
    struct keys *told = xcalloc(1, sizeof(*told));
    for (size_t i = 0; i < device->n_cards; i++)
        for (size_t k = 0; k < device->cards[i].n_breaches; k++)
            *XPUSH(told->items, told->n) = key_of(&device->cards[i].breaches[k]);
    (void)keys_free(strmap_put(l->nodes, node, told));
}

void breach_ledger_forget(struct breach_ledger *l, const char *node)
{
    (void)keys_free(strmap_remove(l->nodes, node));
}

struct breach_ledger *breach_ledger_free(struct breach_ledger *l)
{
    const char *node = NULL;
    void *told = NULL;
    if (!l)
        return NULL;
    for (size_t at = 0; strmap_next(l->nodes, &at, &node, &told);)
        (void)keys_free(told);
    (void)strmap_free(l->nodes);
    free(l);
    return NULL;
}
