/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/view.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

#include "scheduler/node_cards.h"
#include "scheduler/quota.h"

/* A pod that has shares. */
struct holder {
    char *uid, *name; /* "namespace/name"; name NULL while it is only assumed */
    struct pod_shares shares;
    char *binding;       /* assumed; NULL: its Binding was seen */
    int64_t expires_ms;  /* of an assumption */
    struct holder *next; /* on the same node */
};

struct node {
    struct object *device; /* NULL: it gives no shares */
    struct holder *holders;
    /* What is free, with every holder: as many cards as the Device has. */
    struct fraction_card *cards;
    struct fraction_node picture;
    uint64_t fullness;
    bool fresh;          /* the picture is as of now, until then: */
    int64_t fresh_until; /* the next assumption ends */
};

struct view {
    const struct clock *clk;
    view_grown_fn *grown;
    void *arg;
    pthread_mutex_t mu;
    struct strmap *nodes;        /* by name: struct node */
    struct strmap *holders;      /* by the pod's uid: struct holder */
    struct store *pods, *quotas; /* borrowed */
    view_expiry_fn *expires;     /* NULL: nobody is told */
    void *expires_arg;
    /* What the decision that is being made is about. */
    const char *uid;          /* NULL: no pod in particular */
    const struct holder *own; /* what that pod has; NULL: nothing */
    int64_t now;
    bool quota_known, quota_bounds; /* what follows: is it known, does a quota bound it */
    struct quota_use others;
    /* What view_node_without gave last. */
    struct fraction_card cards[FRACTION_MAX_CARDS];
    struct fraction_node picture;
};

struct view *view_new(const struct clock *clk, view_grown_fn *grown, void *arg)
{
    struct view *v = xmalloc(sizeof(*v));
    *v = (struct view){.clk = clk,
                       .grown = grown,
                       .arg = arg,
                       .nodes = strmap_new(),
                       .holders = strmap_new()};
    (void)pthread_mutex_init(&v->mu, NULL);
    return v;
}

/* --- Nodes and holders --- */

static struct node *node_at(struct view *v, const char *name)
{
    struct node *n = strmap_get(v->nodes, name);
    if (!n) {
        n = xmalloc(sizeof(*n));
        (void)strmap_put(v->nodes, name, n);
    }
    return n;
}

static void free_node(struct node *n)
{
    (void)object_unref(n->device);
    free(n->cards);
    free(n);
}

static void drop_if_empty(struct view *v, const char *name)
{
    struct node *n = strmap_get(v->nodes, name);
    if (!n || n->device || n->holders)
        return;
    (void)strmap_remove(v->nodes, name);
    free_node(n);
}

static void free_holder(struct holder *h)
{
    pod_shares_done(&h->shares);
    free(h->binding);
    free(h->name);
    free(h->uid);
    free(h);
}

static void unlink_holder(struct node *n, const struct holder *h)
{
    struct holder **at = &n->holders;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    n->fresh = false;
}

static void grow(struct view *v, const char *node)
{
    if (v->grown)
        v->grown(v->arg, node);
}

static void remove_holder(struct view *v, const char *uid)
{
    struct holder *h = strmap_remove(v->holders, uid);
    if (!h)
        return;
    if (v->own == h)
        v->own = NULL;
    unlink_holder(node_at(v, h->shares.node), h);
    drop_if_empty(v, h->shares.node);
    free_holder(h);
}

static struct holder *put_holder(struct view *v, const char *uid, struct pod_shares *shares_take)
{
    remove_holder(v, uid);
    struct holder *h = xmalloc(sizeof(*h));
    struct node *n = node_at(v, shares_take->node);
    *h = (struct holder){.uid = xstrdup(uid), .shares = *shares_take, .next = n->holders};
    *shares_take = (struct pod_shares){0};
    n->holders = h;
    n->fresh = false;
    (void)strmap_put(v->holders, uid, h);
    return h;
}

/* --- What is free --- */

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

/* What a pod of this name has of the card is known by its record. The pod before it of the same name may
 * still have another card. */
static bool is_recorded(const struct node *n, const char *pod, const char *uuid)
{
    for (const struct holder *h = n->holders; h; h = h->next)
        if (h->name && strcmp(h->name, pod) == 0 && has_card(&h->shares, uuid))
            return true;
    return false;
}

/* Its agent has not released the share yet. */
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

/* Fills in as many cards as `from` has. Returns until when that holds. */
static int64_t draw(const struct view *v, const struct node *n, const struct node_cards *from,
                    const struct look *look, struct fraction_card *cards)
{
    memcpy(cards, from->cards, from->n * sizeof(*cards));
    int64_t until = take_holders(n, look, v->now, cards, from->n);
    take_told(v, n, from, look, cards);
    return until;
}

const struct fraction_node *view_node_without(struct view *v, const char *node,
                                              const char *const *uids, size_t n_uids)
{
    const struct node *n = strmap_get(v->nodes, node);
    const struct node_cards *from = n ? node_cards_of(n->device) : NULL;
    if (!from)
        return NULL;
    (void)draw(v, n, from, &(struct look){v->uid, uids, n_uids, .settled = false}, v->cards);
    v->picture = (struct fraction_node){v->cards, from->n, from->pairs};
    return &v->picture;
}

const struct fraction_node *view_node_settled(struct view *v, const char *node)
{
    const struct node *n = strmap_get(v->nodes, node);
    const struct node_cards *from = n ? node_cards_of(n->device) : NULL;
    if (!from)
        return NULL;
    (void)draw(v, n, from, &(struct look){.self = v->uid, .settled = true}, v->cards);
    v->picture = (struct fraction_node){v->cards, from->n, from->pairs};
    return &v->picture;
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
    const struct node_cards *from = n ? node_cards_of(n->device) : NULL;
    const struct fraction_node *picture = NULL;
    if (!from)
        return NULL;
    if (v->own && strcmp(v->own->shares.node, node) == 0) {
        picture = view_node_without(v, node, /* uids= */ NULL, 0);
    } else {
        refresh(v, n, from);
        picture = &n->picture;
    }
    if (ret_fullness)
        *ret_fullness = picture == &n->picture ? n->fullness : fullness_of(picture);
    return picture;
}

static int by_priority(const void *a, const void *b)
{
    const struct view_pod *x = a;
    const struct view_pod *y = b;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return strcmp(x->uid, y->uid);
}

size_t view_pods_below(struct view *v, const char *node, int64_t priority, struct view_pod **ret)
{
    const struct node *n = strmap_get(v->nodes, node);
    size_t count = 0;
    *ret = NULL;
    for (const struct holder *h = n ? n->holders : NULL; h; h = h->next)
        if (h->shares.priority < priority && !h->binding)
            *XPUSH(*ret, count) = (struct view_pod){h->uid, h->shares.priority};
    if (count)
        qsort(*ret, count, sizeof(**ret), by_priority);
    return count;
}

static void look_as(struct view *v, const char *uid)
{
    v->uid = uid;
    v->own = uid ? strmap_get(v->holders, uid) : NULL;
    v->now = clock_mono_ms(v->clk);
    v->quota_known = false;
}

/* --- What the caches say --- */

/* What was left of each card before a change. */
struct rooms {
    struct fraction_size items[FRACTION_MAX_CARDS]; /* of an ill card: none */
    unsigned n;
};

static struct fraction_size room_of(const struct fraction_card *c)
{
    return c->ill ? (struct fraction_size){0} : fraction_room(c);
}

static void rooms_take(struct view *v, const char *name, struct rooms *ret)
{
    const struct fraction_node *n = view_node(v, name, /* fullness= */ NULL);
    ret->n = n ? n->n : 0;
    for (unsigned i = 0; i < ret->n; i++)
        ret->items[i] = room_of(&n->cards[i]);
}

/* A Device changes often, with every process on a card; few changes make room. A card that is new, or
 * stands at another place, counts as room. */
static bool have_grown(struct view *v, const char *name, const struct rooms *before)
{
    const struct fraction_node *n = view_node(v, name, /* fullness= */ NULL);
    if (!n || n->n != before->n)
        return n;
    for (unsigned i = 0; i < n->n; i++) {
        const struct fraction_size now = room_of(&n->cards[i]);
        const struct fraction_size *was = &before->items[i];
        if (now.memory_mib > was->memory_mib || now.percent > was->percent ||
            now.shares > was->shares)
            return true;
    }
    return false;
}

static void on_device(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    struct view *v = arg;
    const char *name = object_name(after ? after : before);
    (void)stale;
    HOLD(&v->mu);
    struct rooms rooms;
    look_as(v, /* uid= */ NULL);
    rooms_take(v, name, &rooms);
    struct node *n = node_at(v, name);
    (void)object_unref(n->device);
    n->device = node_cards_of(after) ? object_ref((struct object *)(uintptr_t)after) : NULL;
    n->fresh = false;
    drop_if_empty(v, name);
    if (have_grown(v, name, &rooms))
        grow(v, name);
}

static void copy_shares(const struct pod_shares *from, struct pod_shares *to)
{
    *to = (struct pod_shares){.ns = xstrdup(from->ns),
                              .node = xstrdup(from->node),
                              .priority = from->priority};
    for (size_t i = 0; i < from->n; i++) {
        struct pod_share *s = XPUSH(to->items, to->n);
        *s = (struct pod_share){xstrdup(from->items[i].uuid), from->items[i].size};
    }
}

/* What it had is free. */
static void end_holder(struct view *v, const char *uid)
{
    const struct holder *h = strmap_get(v->holders, uid);
    auto_free char *node = xstrdup(h ? h->shares.node : NULL);
    remove_holder(v, uid);
    if (node)
        grow(v, node);
}

/* A pod that is not bound yet in this event may be assumed. */
static void on_pod(void *arg, const struct object *before, const struct object *after, bool stale)
{
    struct view *v = arg;
    const struct pod_shares *is = pod_shares_of(after);
    const struct pod_shares *was = pod_shares_of(before);
    (void)stale;
    HOLD(&v->mu);
    if (is) {
        const struct object_key key = object_key(after);
        struct pod_shares copy;
        copy_shares(is, &copy);
        put_holder(v, object_uid(after), &copy)->name = object_key_text(&key);
    } else if (was || !after) {
        end_holder(v, object_uid(before));
    }
}

/* kube-scheduler tries all refused pods again, whatever node is told of; but a Device may be left of a
 * Node that is gone. */
static void on_quota(void *arg, const struct object *before, const struct object *after, bool stale)
{
    struct view *v = arg;
    const char *node;
    void *value;
    (void)stale;
    if (!before || (!object_payload(before) && !object_payload(after)))
        return;
    HOLD(&v->mu);
    for (size_t pos = 0; strmap_next(v->nodes, &pos, &node, &value);)
        grow(v, node);
}

void view_follow(struct view *v, const struct view_caches *c)
{
    v->quotas = informer_store(c->quotas);
    v->pods = informer_store(c->pods);
    quota_add_index(v->quotas);
    informer_add_handler(c->devices, on_device, v);
    informer_add_handler(c->pods, on_pod, v);
    informer_add_handler(c->quotas, on_quota, v);
}

/* Of a namespace whose shares a quota bounds, without the pod that the decision is about. */
static struct quota_use others_use(const struct view *v, const char *ns)
{
    struct quota_use use = {0};
    const char *key;
    void *value;
    for (size_t pos = 0; strmap_next(v->holders, &pos, &key, &value);) {
        const struct holder *h = value;
        bool counts = !h->binding || v->now < h->expires_ms;
        if (counts && h != v->own && strcmp(h->shares.ns, ns) == 0)
            quota_use_add(&use, &h->shares);
    }
    return use;
}

/* A decision is about one pod, and its namespace: the others are added up once. */
int view_check_quota(struct view *v, const struct pod_shares *s, struct err *e)
{
    if (!v->quota_known) {
        v->quota_known = true;
        v->quota_bounds = quota_bounds(v->quotas, s->ns);
        v->others = v->quota_bounds ? others_use(v, s->ns) : (struct quota_use){0};
    }
    if (!v->quota_bounds)
        return 0;
    struct quota_use use = v->others;
    quota_use_add(&use, s);
    return quota_check(v->quotas, s->ns, &use, e);
}

/* --- Decisions --- */

void view_begin(struct view *v, const char *uid)
{
    (void)pthread_mutex_lock(&v->mu);
    look_as(v, uid);
}

void view_end(struct view *v)
{
    (void)pthread_mutex_unlock(&v->mu);
}

/* A pod whose Binding was seen is not placed again. */
void view_assume(struct view *v, const char *uid, const char *node, struct pod_shares *items_take,
                 const char *binding)
{
    const struct holder *known = strmap_get(v->holders, uid);
    if (known && !known->binding) {
        pod_shares_done(items_take);
        return;
    }
    if (known && strcmp(known->shares.node, node) != 0)
        end_holder(v, uid);
    xstr_set(&items_take->node, node);
    struct holder *h = put_holder(v, uid, items_take);
    h->binding = xstrdup(binding);
    h->expires_ms = v->now + VIEW_ASSUMED_MS;
    if (v->expires)
        v->expires(v->expires_arg, uid, VIEW_ASSUMED_MS);
}

/* NULL: nothing is assumed for the pod on this node. */
static struct holder *assumed_on(struct view *v, const char *uid, const char *node)
{
    struct holder *h = strmap_get(v->holders, uid);
    return h && h->binding && strcmp(h->shares.node, node) == 0 ? h : NULL;
}

static void hold_for(struct view *v, struct holder *h, int64_t ms)
{
    h->expires_ms = v->now + ms;
    node_at(v, h->shares.node)->fresh = false;
}

char *view_confirm(struct view *v, const char *uid, const char *node)
{
    struct holder *h = assumed_on(v, uid, node);
    if (!h || v->now >= h->expires_ms)
        return NULL;
    hold_for(v, h, VIEW_BOUND_MS);
    return xstrdup(h->binding);
}

void view_doubt(struct view *v, const char *uid, const char *node)
{
    struct holder *h = assumed_on(v, uid, node);
    if (h)
        hold_for(v, h, VIEW_ASSUMED_MS);
}

void view_forget(struct view *v, const char *uid, const char *node)
{
    const struct holder *h = strmap_get(v->holders, uid);
    if (h && h->binding && (!node || strcmp(h->shares.node, node) == 0))
        end_holder(v, uid);
}

void view_on_expiry(struct view *v, view_expiry_fn *fn, void *arg)
{
    v->expires = fn;
    v->expires_arg = arg;
}

int64_t view_expire(struct view *v, const char *uid)
{
    HOLD(&v->mu);
    const struct holder *h = strmap_get(v->holders, uid);
    int64_t now = clock_mono_ms(v->clk);
    if (!h || !h->binding)
        return 0;
    if (now < h->expires_ms)
        return h->expires_ms - now;
    end_holder(v, uid);
    return 0;
}

struct view *view_free(struct view *v)
{
    size_t pos = 0;
    const char *key;
    void *value;
    if (!v)
        return NULL;
    while (strmap_next(v->holders, &pos, &key, &value))
        free_holder(value);
    pos = 0;
    while (strmap_next(v->nodes, &pos, &key, &value))
        free_node(value);
    (void)strmap_free(v->holders);
    (void)strmap_free(v->nodes);
    (void)pthread_mutex_destroy(&v->mu);
    free(v);
    return NULL;
}
