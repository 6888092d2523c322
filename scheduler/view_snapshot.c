/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/view_snapshot.h"

#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

#include "scheduler/view_parts.h"

/* --- Cards --- */

/* How many pods hold each card as a whole, as the agent tells. */
static void count_whole(const struct node_cards *n, unsigned *ret)
{
    memset(ret, 0, n->n * sizeof(*ret));
    for (size_t i = 0; i < n->n_told; i++)
        ret[n->told[i].card] += n->told[i].whole;
}

/* whole: pods that hold the whole card, which counts as full for them, in shares as well. */
static void add_card(struct view_snapshot *s, const char *node, unsigned index, unsigned whole,
                     const struct fraction_card *c)
{
    bool is_held = whole && c->used.shares >= c->total.shares;
    *XPUSH(s->cards, s->n_cards) =
        (struct snapshot_card){.node = xstrdup(node),
                               .uuid = xstrdup(c->uuid),
                               .model = xstrdup(c->model ? c->model : ""),
                               .index = index,
                               .sharers = is_held ? whole : c->used.shares,
                               .total = c->total,
                               .used = c->used};
}

static void add_cards(struct view *v, struct view_snapshot *s)
{
    const char *name;
    void *node;
    for (size_t pos = 0; strmap_next(v->nodes, &pos, &name, &node);) {
        const struct fraction_node *picture = view_node(v, name, /* ret_fullness= */ NULL);
        const struct node_cards *n = node_cards_of(((struct node *)node)->device);
        unsigned whole[FRACTION_MAX_CARDS];
        if (!picture)
            continue;
        count_whole(n, whole);
        for (unsigned i = 0; i < picture->n; i++)
            add_card(s, name, n->indices[i], whole[i], &picture->cards[i]);
    }
}

/* --- Shares --- */

static void add_pod(struct view_snapshot *s, const struct holder *h)
{
    const struct pod_shares *of = &h->shares;
    const char *slash = strchr(h->name, '/');
    if (!slash) /* an API server may send a pod without a namespace */
        return;
    const char *pod = slash + 1;
    for (size_t i = 0; i < of->n_parts; i++) {
        const struct pod_part *p = &of->parts[i];
        *XPUSH(s->shares, s->n_shares) =
            (struct snapshot_share){.ns = xstrdup(of->ns),
                                    .pod = xstrdup(pod),
                                    .node = xstrdup(of->node),
                                    .uuid = xstrdup(of->items[p->item].uuid),
                                    .container = p->container,
                                    .memory_mib = p->memory_mib,
                                    .percent = p->percent};
    }
}

/* --- Quotas --- */

/* -1 is no bound. */
static int64_t least(int64_t a, int64_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

/* places: of each namespace its place in the list, from 1. */
static struct snapshot_quota *quota_of(struct view_snapshot *s, const struct strmap *places,
                                       const char *ns)
{
    uintptr_t place = (uintptr_t)strmap_get(places, ns);
    return place ? &s->quotas[place - 1] : NULL;
}

static void add_quota(struct view_snapshot *s, struct strmap *places, const struct object *o)
{
    const char *ns = object_key(o).ns;
    const struct quota_use most = quota_most(o);
    struct snapshot_quota *q = quota_of(s, places, ns);
    if (!q) {
        q = XPUSH(s->quotas, s->n_quotas);
        *q = (struct snapshot_quota){.ns = xstrdup(ns), .most = {-1, -1}};
        (void)strmap_put(places, ns, (void *)(uintptr_t)s->n_quotas);
    }
    q->most = (struct quota_use){least(q->most.memory_mib, most.memory_mib),
                                 least(q->most.percent, most.percent)};
}

static void add_quotas(const struct view *v, struct view_snapshot *s, struct strmap *places)
{
    auto_object_list struct object_list all = {0};
    store_list(v->quotas, &all);
    for (size_t i = 0; i < all.count; i++)
        if (quota_has_words(all.items[i]))
            add_quota(s, places, all.items[i]);
}

/* --- The whole --- */

static void add_holders(const struct view *v, struct view_snapshot *s, const struct strmap *places)
{
    const char *uid;
    void *value;
    for (size_t pos = 0; strmap_next(v->holders, &pos, &uid, &value);) {
        const struct holder *h = value;
        struct snapshot_quota *q = quota_of(s, places, h->shares.ns);
        if (h->name)
            add_pod(s, h);
        if (q && (!h->binding || v->now < h->expires_ms))
            quota_use_add(&q->used, &h->shares);
    }
}

void view_snapshot_take(struct view *v, struct view_snapshot *ret)
{
    auto_strmap struct strmap *places = strmap_new();
    *ret = (struct view_snapshot){0};
    view_begin(v, /* uid= */ NULL);
    add_cards(v, ret);
    add_quotas(v, ret, places);
    add_holders(v, ret, places);
    view_end(v);
}

void view_snapshot_done(struct view_snapshot *s)
{
    for (size_t i = 0; i < s->n_cards; i++) {
        free(s->cards[i].node);
        free(s->cards[i].uuid);
        free(s->cards[i].model);
    }
    for (size_t i = 0; i < s->n_shares; i++) {
        free(s->shares[i].ns);
        free(s->shares[i].pod);
        free(s->shares[i].node);
        free(s->shares[i].uuid);
    }
    for (size_t i = 0; i < s->n_quotas; i++)
        free(s->quotas[i].ns);
    free(s->cards);
    free(s->shares);
    free(s->quotas);
    *s = (struct view_snapshot){0};
}
