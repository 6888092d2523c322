/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/xalloc.h"

#include "scheduler/view.h"
#include "scheduler/view_parts.h"

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
    (void)object_unref(n->words);
    free(n->cards);
    free(n);
}

static void drop_if_empty(struct view *v, const char *name)
{
    struct node *n = strmap_get(v->nodes, name);
    if (!n || n->device || n->words || n->holders)
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
    struct fraction_size items[FRACTION_MAX_CARDS]; /* of one that is ill or cordoned: none */
    unsigned n;
};

static struct fraction_size room_of(const struct fraction_card *c)
{
    return c->ill || c->cordoned ? (struct fraction_size){0} : fraction_room(c);
}

static void rooms_take(struct view *v, const char *name, struct rooms *ret)
{
    const struct fraction_node *n = view_node(v, name, /* ret_fullness= */ NULL);
    ret->n = n ? n->n : 0;
    for (unsigned i = 0; i < ret->n; i++)
        ret->items[i] = room_of(&n->cards[i]);
}

/* A Device changes often, with every process on a card; few changes make room. A card that is new, or
 * stands at another place, counts as room. */
static bool have_grown(struct view *v, const char *name, const struct rooms *before)
{
    const struct fraction_node *n = view_node(v, name, /* ret_fullness= */ NULL);
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

/* Replaces what is known of a node, and tells of the room that comes of it. */
static void see(struct view *v, const char *name, struct object *device_take,
                struct object *words_take)
{
    struct rooms rooms;
    look_as(v, /* uid= */ NULL);
    rooms_take(v, name, &rooms);
    struct node *n = node_at(v, name);
    (void)object_unref(n->device);
    (void)object_unref(n->words);
    n->device = device_take;
    n->words = words_take;
    n->fresh = false;
    drop_if_empty(v, name);
    if (have_grown(v, name, &rooms))
        grow(v, name);
}

/* The object where there is a record of it. New reference. */
static struct object *kept(const struct object *o, const void *record)
{
    return record ? object_ref((struct object *)(uintptr_t)o) : NULL;
}

static void on_device(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    struct view *v = arg;
    const char *name = object_name(after ? after : before);
    (void)stale;
    HOLD(&v->mu);
    const struct node *n = node_at(v, name);
    see(v, name, kept(after, node_cards_of(after)), kept(n->words, n->words));
}

/* Nodes change often, and say something of cards seldom. */
static void on_node(void *arg, const struct object *before, const struct object *after, bool stale)
{
    struct view *v = arg;
    const char *name = object_name(after ? after : before);
    (void)stale;
    if (!node_words_of(before) && !node_words_of(after))
        return;
    HOLD(&v->mu);
    const struct node *n = node_at(v, name);
    bool kept_whole_cards_away = !n->device && view_is_hamis(v, name);
    see(v, name, kept(n->device, n->device), kept(after, node_words_of(after)));
    if (kept_whole_cards_away && !view_is_hamis(v, name))
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
    for (size_t i = 0; i < from->n_parts; i++)
        *XPUSH(to->parts, to->n_parts) = from->parts[i];
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
    if (!before || (!quota_has_words(before) && !quota_has_words(after)))
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
    informer_add_handler(c->nodes, on_node, v);
    informer_add_handler(c->pods, on_pod, v);
    informer_add_handler(c->quotas, on_quota, v);
}

static void read_list(struct view *v, struct store *from, informer_fn *on)
{
    auto_object_list struct object_list all = {0};
    store_list(from, &all);
    for (size_t i = 0; i < all.count; i++)
        on(v, /* before= */ NULL, all.items[i], /* stale= */ false);
}

void view_read(struct view *v, const struct view_lists *l)
{
    v->quotas = l->quotas;
    v->pods = l->pods;
    read_list(v, l->devices, on_device);
    read_list(v, l->nodes, on_node);
    read_list(v, l->pods, on_pod);
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
