/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "scheduler/view_parts.h"

/* The cards of a node with what is taken of them: Device, records, assumptions and the agent's words. */

/* How a node is looked at. */
struct look {
    const char *self;        /* the pod that it is about; NULL: none */
    const char *const *gone; /* pods that are looked away from */
    size_t n_gone;
    bool settled; /* as if what agents are about to release were released */
};

static bool is_absent(const struct holder *h, const struct look *look)
{
    for (size_t i = 0; i < look->n_gone; i++)
        if (strcmp(h->uid, look->gone[i]) == 0)
            return true;
    return look->self && strcmp(h->uid, look->self) == 0;
}

static struct fraction_card *card_of(struct fraction_card *cards, unsigned n, const char *uuid)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(cards[i].uuid, uuid) == 0)
            return &cards[i];
    return NULL;
}

static void take_holder(const struct holder *h, struct fraction_card *cards, unsigned n)
{
    for (size_t i = 0; i < h->shares.n; i++) {
        struct fraction_card *c = card_of(cards, n, h->shares.items[i].uuid);
        if (c)
            c->used = fraction_add(c->used, h->shares.items[i].size);
    }
}

/* Returns when the first of the assumptions that count ends. */
static int64_t take_holders(const struct node *n, const struct look *look, int64_t now,
                            struct fraction_card *cards, unsigned n_cards)
{
    int64_t first = INT64_MAX;
    for (const struct holder *h = n->holders; h; h = h->next) {
        if (is_absent(h, look) || (h->binding && now >= h->expires_ms))
            continue;
        take_holder(h, cards, n_cards);
        if (h->binding && h->expires_ms < first)
            first = h->expires_ms;
    }
    return first;
}

static bool has_card(const struct pod_shares *s, const char *uuid)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].uuid, uuid) == 0)
            return true;
    return false;
}

/* True when a record says what a pod of this name has of the card. An earlier pod of the same name may
 * still have another card. */
static bool is_recorded(const struct node *n, const char *pod, const char *uuid)
{
    for (const struct holder *h = n->holders; h; h = h->next)
        if (h->name && strcmp(h->name, pod) == 0 && has_card(&h->shares, uuid))
            return true;
    return false;
}

/* True when the API server has no such pod any more: its share is about to be released. */
static bool is_gone(const struct view *v, const char *pod)
{
    auto_free char *ns = xstrdup(pod);
    char *name = strchr(ns, '/');
    assert(name); /* node_cards.c */
    *name++ = '\0';
    const struct object_key key = {ns, name};
    auto_object struct object *o = store_get(v->pods, &key);
    return !o;
}

static void take_told(const struct view *v, const struct node *n, const struct node_cards *from,
                      const struct look *look, struct fraction_card *cards)
{
    for (size_t i = 0; i < from->n_told; i++) {
        const struct told_share *t = &from->told[i];
        struct fraction_card *c = &cards[t->card];
        if (!is_recorded(n, t->pod, c->uuid) && !(look->settled && is_gone(v, t->pod)))
            c->used = t->whole ? c->total : fraction_add(c->used, t->size);
    }
}

static void cordon(const struct node *n, struct fraction_card *cards, unsigned n_cards)
{
    const struct node_words *w = node_words_of(n->words);
    for (unsigned i = 0; w && i < n_cards; i++)
        cards[i].cordoned =
            w->is_cordoned || (w->cordoned && fraction_names_uuid(w->cordoned, cards[i].uuid));
}

/* Fills in as many cards as `from` has. Returns until when that holds. */
static int64_t draw(const struct view *v, const struct node *n, const struct node_cards *from,
                    const struct look *look, struct fraction_card *cards)
{
    memcpy(cards, from->cards, from->n * sizeof(*cards));
    int64_t until = take_holders(n, look, v->now, cards, from->n);
    take_told(v, n, from, look, cards);
    cordon(n, cards, from->n);
    return until;
}

static const struct fraction_node *draw_apart(struct view *v, const char *node,
                                              const struct look *look)
{
    const struct node *n = strmap_get(v->nodes, node);
    const struct node_cards *from = node_gives(n);
    if (!n || !from)
        return NULL;
    (void)draw(v, n, from, look, v->cards);
    v->picture = (struct fraction_node){v->cards, from->n, from->pairs};
    return &v->picture;
}

bool view_is_hamis(const struct view *v, const char *node)
{
    const struct node *n = strmap_get(v->nodes, node);
    const struct node_words *w = n ? node_words_of(n->words) : NULL;
    return w && w->is_hamis;
}

int64_t view_card_number(const struct view *v, const char *node, const char *uuid)
{
    const struct node *n = strmap_get(v->nodes, node);
    const struct node_cards *from = node_gives(n);
    for (unsigned i = 0; from && i < from->n; i++)
        if (strcmp(from->cards[i].uuid, uuid) == 0)
            return from->indices[i];
    return -1;
}

const struct fraction_node *view_node_without(struct view *v, const char *node,
                                              const char *const *uids, size_t n_uids)
{
    const struct look look = {v->uid, uids, n_uids, .settled = true};
    return draw_apart(v, node, &look);
}

static bool releases(const struct view *v, const struct node *n)
{
    const struct node_cards *from = node_cards_of(n->device);
    for (size_t i = 0; from && i < from->n_told; i++)
        if (is_gone(v, from->told[i].pod))
            return true;
    return false;
}

const char *view_next_releasing(const struct view *v, size_t *pos)
{
    const char *name;
    void *node;
    while (strmap_next(v->nodes, pos, &name, &node))
        if (releases(v, node))
            return name;
    return NULL;
}

static uint64_t fullness_of(const struct fraction_node *n)
{
    enum { MILLION = 1000000 };
    uint64_t used[3] = {0};
    uint64_t total[3] = {0};
    uint64_t sum = 0;
    for (unsigned i = 0; i < n->n; i++) {
        const struct fraction_size *u = &n->cards[i].used;
        const struct fraction_size *t = &n->cards[i].total;
        const unsigned us[] = {u->shares, u->percent, u->memory_mib};
        const unsigned ts[] = {t->shares, t->percent, t->memory_mib};
        for (size_t k = 0; k < ARRAY_LEN(us); k++) {
            used[k] += us[k];
            total[k] += ts[k];
        }
    }
    for (size_t k = 0; k < ARRAY_LEN(used); k++)
        sum += total[k] ? used[k] * MILLION / total[k] : 0;
    return sum;
}

static void refresh(const struct view *v, struct node *n, const struct node_cards *from)
{
    if (n->fresh && v->now < n->fresh_until)
        return;
    n->cards = xreallocarray(n->cards, from->n, sizeof(*n->cards));
    n->fresh_until = draw(v, n, from, &(struct look){.self = NULL}, n->cards);
    n->picture = (struct fraction_node){n->cards, from->n, from->pairs};
    n->fullness = fullness_of(&n->picture);
    n->fresh = true;
}

/* Most of the nodes that a pod is offered did not change since the last pod. */
const struct fraction_node *view_node(struct view *v, const char *node, uint64_t *ret_fullness)
{
    struct node *n = strmap_get(v->nodes, node);
    const struct node_cards *from = node_gives(n);
    const struct fraction_node *picture = NULL;
    if (!n || !from)
        return NULL;
    if (v->own && strcmp(v->own->shares.node, node) == 0) {
        picture = draw_apart(v, node, &(struct look){.self = v->uid});
    } else {
        refresh(v, n, from);
        picture = &n->picture;
    }
    if (ret_fullness)
        *ret_fullness = picture == &n->picture ? n->fullness : fullness_of(picture);
    return picture;
}
