/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/share_why.h"

#include <string.h>

#include "base/clock.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/cluster_objects.h"
#include "scheduler/choice.h"
#include "scheduler/node_cards.h"
#include "scheduler/node_words.h"
#include "scheduler/quota.h"
#include "service/resources.h"

enum { MAX_WORDS_BYTES = 64 << 10 };

/* --- Reading the cluster --- */

struct reading {
    struct cluster_objects objects; /* its Nodes and Devices in the scheduler's records */
    struct store *pods, *quotas;
    const struct pod_nodes *may;
    struct share_why *ret;
};

static void reading_init(struct reading *r)
{
    cluster_objects_init(&r->objects);
    r->pods = store_new();
    r->quotas = store_new();
    quota_add_index(r->quotas);
}

static void reading_done(struct reading *r)
{
    cluster_objects_done(&r->objects);
    (void)store_free(r->pods);
    (void)store_free(r->quotas);
}

AUTO_DEFINE(reading, struct reading, reading_done)
#define auto_reading AUTO(reading)

static int read_node(void *arg, const json_t *obj, struct err *e)
{
    struct reading *r = arg;
    TRY(cluster_objects_put(r->objects.caches.nodes, &node_words_type, obj, e));
    *XPUSH(r->ret->nodes, r->ret->n_nodes) =
        (struct share_node){.name = xstrdup(JX_STR_AT(obj, "metadata", "name")),
                            .refusal = pod_nodes_refusal(r->may, obj)};
    return 0;
}

static int read_cluster(struct kc *kc, struct scope *s, const char *ns, struct reading *r,
                        struct err *e)
{
    const struct kc_target nodes = {.res = &resource_nodes};
    const struct kc_list_opts o = {.resource_version = "0"};
    struct cluster_objects *all = &r->objects;
    TRY(kc_list_each(kc, s, &nodes, &o, read_node, r, /* ret_version= */ NULL, e));
    TRY(cluster_objects_read(all, kc, s, &node_cards_type, all->caches.devices, /* without= */ NULL,
                             e));
    TRY(cluster_objects_read(
        all, kc, s, &pod_shares_type, r->pods,
        "of the shares that are given out only those that agents report are known", e));
    return cluster_objects_read_in(all, kc, s, ns, &quota_type, r->quotas,
                                   "quotas of the namespace are not seen", e);
}

/* --- The pod's wish in words --- */

static void add_ask(const struct fraction_ask *a, struct sb *b)
{
    sb_addf(b, "%s%s", b->len ? "; " : "", a->container);
    if (a->count > 1)
        sb_addf(b, " %u times", a->count);
    if (a->memory_mib)
        sb_addf(b, " %u MiB", a->memory_mib);
    else
        sb_addf(b, " %u %% of a card's memory", a->memory_percent);
    if (a->percent)
        sb_addf(b, ", %u %% of its compute", a->percent);
}

static char *ask_words(const struct pod_ask *a)
{
    auto_sb struct sb b = SB_INIT(MAX_WORDS_BYTES);
    for (unsigned i = 0; i < a->n; i++)
        if (a->asks[i].count)
            add_ask(&a->asks[i], &b);
    return sb_take(&b);
}

/* --- One node --- */

static bool is_usable(const struct fraction_card *c)
{
    return !c->ill && !c->cordoned && !c->only_whole && fraction_room(c).shares > 0;
}

static void find_largest(const struct view *v, const struct fraction_node *n,
                         struct share_node *ret)
{
    for (unsigned i = 0; i < n->n; i++) {
        const struct fraction_size room = fraction_room(&n->cards[i]);
        const struct share_room *most = &ret->largest;
        bool more = room.memory_mib > most->memory_mib ||
                    (room.memory_mib == most->memory_mib && room.percent > most->percent);
        if (!is_usable(&n->cards[i]) || room.memory_mib == 0 || !more)
            continue;
        ret->has_largest = true;
        ret->largest = (struct share_room){view_card_number(v, ret->name, n->cards[i].uuid),
                                           room.memory_mib, room.percent};
    }
}

/* Whatever the quotas say. */
static bool fits(const struct fraction_node *n, const struct pod_ask *a)
{
    auto_free struct fraction_plan *plan = xmalloc(sizeof(*plan));
    const struct fraction_pod pod = {.asks = a->asks, .n = a->n, .wish = a->wish.cards};
    return !a->shared.kind && fraction_search(n, &pod, plan, /* e= */ NULL) == 0;
}

static void judge(struct view *v, const struct pod_ask *a, struct share_node *ret)
{
    auto_err struct err e = {0};
    const struct fraction_node *n = view_node(v, ret->name, /* ret_fullness= */ NULL);
    if (!n) {
        int rc = choice_check_unshared(v, a, ret->name, &e);
        ret->misfit = xstrdup(rc < 0 ? err_msg(&e) : "its kubelet gives whole cards");
        return;
    }
    ret->gives = true;
    find_largest(v, n, ret);
    if (choice_check(v, n, a, &e) == 0)
        return;
    /* The planner's words for what can never be are of cards that nobody uses. */
    bool never = e.kind == ERR_INVALID && !a->shared.kind;
    if (fits(n, a))
        ret->quota = xstrdup(err_msg(&e));
    else
        ret->misfit = xasprintf("%s%s", err_msg(&e), never ? ", were all of them free" : "");
}

/* --- The whole --- */

static void judge_all(const struct reading *r, const struct pod_ask *a, struct share_why *ret)
{
    auto_view struct view *v = view_new(clock_real(), /* grown= */ NULL, /* arg= */ NULL);
    view_read(v, &(struct view_lists){r->objects.caches.devices, r->objects.caches.nodes, r->pods,
                                      r->quotas});
    view_begin(v, a->uid);
    for (size_t i = 0; i < ret->n_nodes; i++)
        judge(v, a, &ret->nodes[i]);
    view_end(v);
}

static int make(struct kc *kc, struct scope *s, const struct pod_ask *a,
                const struct pod_nodes *may, struct share_why *ret, struct err *e)
{
    auto_reading struct reading r = {.may = may, .ret = ret};
    reading_init(&r);
    TRY(read_cluster(kc, s, a->ns, &r, e));
    judge_all(&r, a, ret);
    ret->unread = r.objects.unread;
    r.objects.unread = (struct unread){0};
    return 0;
}

int share_why_make(struct kc *kc, struct scope *s, json_t *pod, const struct pod_nodes *may,
                   struct share_why *ret, struct err *e)
{
    auto_err struct err why = {0};
    auto_pod_ask struct pod_ask a = {0};
    *ret = (struct share_why){0};
    if (pod_ask_of(pod, &a, &why) < 0) {
        ret->invalid = xstrdup(err_msg(&why));
        return 0;
    }
    ret->asks = ask_words(&a);
    int rc = make(kc, s, &a, may, ret, e);
    if (rc < 0)
        share_why_done(ret);
    return rc;
}

void share_why_done(struct share_why *y)
{
    for (size_t i = 0; i < y->n_nodes; i++) {
        free(y->nodes[i].name);
        free(y->nodes[i].refusal);
        free(y->nodes[i].misfit);
        free(y->nodes[i].quota);
    }
    unread_done(&y->unread);
    free(y->nodes);
    free(y->asks);
    free(y->invalid);
    *y = (struct share_why){0};
}
