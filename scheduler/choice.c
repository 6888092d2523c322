/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/choice.h"

#include <jansson.h>

#include "base/xalloc.h"

#include "api/allocation.h"
#include "interop/gpushare.h"
#include "scheduler/node_words.h"

/* --- The record --- */

/* The shares of ask i by the plan. */
static void add_container(const struct pod_ask *a, const struct fraction_node *n,
                          const struct fraction_plan *plan, unsigned i, struct allocation *r)
{
    const struct fraction_ask *ask = &a->asks[i];
    if (!ask->count)
        return;
    struct allocation_container *c = XPUSH(r->containers, r->n_containers);
    c->name = xstrdup(ask->container);
    for (unsigned k = 0; k < ask->count; k++) {
        const struct fraction_card *card = &n->cards[plan->cards[i][k]];
        const struct fraction_size size = fraction_share(card, ask);
        *XPUSH(c->shares, c->n_shares) =
            (struct allocation_share){xstrdup(card->uuid), size.memory_mib, size.percent};
    }
}

struct node_of_view {
    const struct view *view;
    const char *name;
};

static int64_t card_number(void *arg, const char *uuid)
{
    const struct node_of_view *n = arg;
    return view_card_number(n->view, n->name, uuid);
}

/* The record, and beside it what tools of HAMi's and gpushare's read. */
static int binding_text(const struct pod_ask *a, const struct allocation *r,
                        struct node_of_view *on, char **ret, struct err *e)
{
    auto_free char *text = NULL;
    TRY(allocation_format(r, &text, e));
    auto_free char *hami = hami_allocated_text(a->pod, r);
    auto_free char *gpushare = gpushare_allocation_text(a->pod, r, card_number, on);
    auto_json json_t *annotations = json_pack("{s:s,s:s,s:s*}", ALLOCATION_ANNOTATION, text,
                                              HAMI_ALLOCATED, hami, GPUSHARE_ALLOCATION, gpushare);
    *ret = json_dumps(annotations, JSON_COMPACT);
    return *ret ? 0 : err_set(e, ERR_INVALID, "the pod's record is no UTF-8");
}

/* Turns a plan into the pod's record and its shares, where its namespace's quotas allow them. */
static int allot(struct view *v, const struct pod_ask *a, const struct fraction_node *n,
                 const struct fraction_plan *plan, struct allocation *r, struct pod_shares *shares,
                 struct err *e)
{
    *r = (struct allocation){.version = ALLOCATION_VERSION, .priority = a->priority};
    for (unsigned i = 0; i < a->n; i++)
        add_container(a, n, plan, i, r);
    pod_shares_add(shares, a->pod, r);
    return view_check_quota(v, shares, e);
}

/* Assumes what a plan gives the pod. */
static int assume(struct view *v, const struct pod_ask *a, const char *name,
                  const struct fraction_node *n, const struct fraction_plan *plan,
                  char **ret_binding, struct err *e)
{
    auto_pod_shares struct pod_shares shares = {0};
    AUTO(allocation) struct allocation r = {0};
    TRY(allot(v, a, n, plan, &r, &shares, e));
    TRY(binding_text(a, &r, &(struct node_of_view){v, name}, ret_binding, e));
    view_assume(v, a->uid, name, &shares, *ret_binding);
    return 0;
}

static int plan_on(const struct fraction_node *n, const struct pod_ask *a,
                   struct fraction_plan *ret, struct err *e)
{
    const struct fraction_pod pod = {.asks = a->asks, .n = a->n, .wish = a->wish.cards};
    if (a->shared.kind)
        return err_set(e, a->shared.kind, "%s", err_msg(&a->shared));
    return fraction_search(n, &pod, ret, e);
}

int choice_check(struct view *v, const struct fraction_node *n, const struct pod_ask *a,
                 struct err *e)
{
    auto_free struct fraction_plan *plan = xmalloc(sizeof(*plan));
    auto_pod_shares struct pod_shares shares = {0};
    AUTO(allocation) struct allocation r = {0};
    TRY(plan_on(n, a, plan, e));
    return allot(v, a, n, plan, &r, &shares, e);
}

/* --- One of many --- */

static void refuse(struct choice *c, const char *node, const struct err *e)
{
    *XPUSH(c->refused, c->n_refused) = (struct choice_refusal){.node = node,
                                                               .why = xstrdup(err_msg(e)),
                                                               .never = e->kind == ERR_INVALID};
}

static void keep(struct choice *c, const char *node)
{
    *XPUSH(c->kept, c->n_kept) = node;
}

/* A node whose cards give shares. */
struct candidate {
    const char *node;
    uint64_t rank; /* the lowest is preferred */
    size_t at;     /* in the offer: of equals the first */
};

struct candidates {
    struct candidate *items;
    size_t n;
};

static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

int choice_check_unshared(const struct view *v, const struct pod_ask *a, const char *node,
                          struct err *e)
{
    const struct fraction_wish *w = &a->wish.cards;
    bool picks = w->use_models || w->no_models || w->use_uuids || w->no_uuids || w->one_numa;
    if (view_is_hamis(v, node))
        return err_set(e, ERR_INVALID,
                       "HAMi's device plugin serves the node, by its annotation " NODE_REGISTER
                       ": once the plugin is gone, remove that");
    if (!a->whole)
        return err_set(e, ERR_INVALID, "no card of the node is given out in shares");
    if (picks)
        return err_set(e, ERR_INVALID,
                       "the node's kubelet chooses among whole cards, and the pod's annotations "
                       "say which: they are followed where cards are given out in shares");
    return 0;
}

static void look_at(struct view *v, const struct pod_ask *a, const char *name,
                    struct candidates *found, struct choice *c)
{
    auto_err struct err e = {0};
    uint64_t full = 0;
    const struct fraction_node *n = view_node(v, name, &full);
    if (n) {
        found->items[found->n] =
            (struct candidate){name, a->wish.nodes == HAMI_NODE_SPREAD ? full : UINT64_MAX - full,
                               found->n};
        found->n++;
    } else if (choice_check_unshared(v, a, name, &e) == 0) {
        keep(c, name);
    } else {
        refuse(c, name, &e);
    }
}

/* True: the pod has the node. Otherwise it is refused. */
static bool try_node(struct view *v, const struct pod_ask *a, const char *name,
                     struct fraction_plan *plan, struct choice *c)
{
    auto_err struct err e = {0};
    auto_free char *binding = NULL;
    const struct fraction_node *n = view_node(v, name, /* ret_fullness= */ NULL);
    if (plan_on(n, a, plan, &e) == 0 && assume(v, a, name, n, plan, &binding, &e) == 0) {
        keep(c, name);
        return true;
    }
    refuse(c, name, &e);
    return false;
}

/* The time that a question may take is real, whatever clock the view has. */
bool choice_has_time(int64_t began_ms)
{
    return clock_mono_ms(clock_real()) - began_ms < CHOICE_MS;
}

static void refuse_unseen(struct choice *c, const char *node)
{
    auto_err struct err e = {0};
    (void)
        err_set(&e, ERR_TOO_LARGE,
                "not looked at: the pod's containers take too long to place; ask for fewer, or for "
                "whole cards");
    refuse(c, node, &e);
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate held = *a;
    *a = *b;
    *b = held;
}

/* Keeps the first node on which the pod fits; those before it are refused, and those for which no time
 * is left. The very first mostly does, so that the others are put into order only where it does not.
 * False: none is kept. */
static bool keep_best(struct view *v, const struct pod_ask *a, const struct candidates *found,
                      struct choice *c)
{
    auto_free struct fraction_plan *plan = xmalloc(sizeof(*plan));
    int64_t began_ms = clock_mono_ms(clock_real());
    size_t first = 0;
    for (size_t i = 1; i < found->n; i++)
        first = by_rank(&found->items[i], &found->items[first]) < 0 ? i : first;
    if (!found->n)
        return false;
    if (try_node(v, a, found->items[first].node, plan, c))
        return true;
    swap(&found->items[0], &found->items[first]);
    qsort(found->items + 1, found->n - 1, sizeof(*found->items), by_rank);
    for (size_t i = 1; i < found->n; i++) {
        if (!choice_has_time(began_ms))
            refuse_unseen(c, found->items[i].node);
        else if (try_node(v, a, found->items[i].node, plan, c))
            return true;
    }
    return false;
}

/* Be it in an init container alone. */
static bool asks_for_cards(const struct pod_ask *a)
{
    return a->n_shares || a->shared.kind;
}

void choice_make(struct view *v, const struct pod_ask *a, const char *const *names, size_t n,
                 struct choice *ret)
{
    auto_free struct candidate *items = xcalloc(n + 1, sizeof(*items));
    struct candidates found = {items, 0};
    *ret = (struct choice){0};
    view_begin(v, a->uid);
    for (size_t i = 0; i < n; i++) {
        if (asks_for_cards(a))
            look_at(v, a, names[i], &found, ret);
        else
            keep(ret, names[i]);
    }
    bool assumed = !ret->n_kept && keep_best(v, a, &found, ret);
    if (!assumed)
        view_forget(v, a->uid, /* node= */ NULL);
    view_end(v);
}

void choice_refuse_all(const char *const *names, size_t n, const struct err *e, struct choice *ret)
{
    *ret = (struct choice){0};
    for (size_t i = 0; i < n; i++) {
        refuse(ret, names[i], e);
        ret->refused[i].never = true;
    }
}

static int renew(struct view *v, const struct pod_ask *a, const char *node, char **ret_binding,
                 struct err *e)
{
    auto_free struct fraction_plan *plan = xmalloc(sizeof(*plan));
    const struct fraction_node *n = view_node(v, node, /* ret_fullness= */ NULL);
    if (!n)
        return choice_check_unshared(v, a, node, e);
    TRY(plan_on(n, a, plan, e));
    return assume(v, a, node, n, plan, ret_binding, e);
}

int choice_renew(struct view *v, const struct pod_ask *a, const char *node, char **ret_binding,
                 struct err *e)
{
    *ret_binding = NULL;
    if (!asks_for_cards(a))
        return 0;
    view_begin(v, a->uid);
    int rc = renew(v, a, node, ret_binding, e);
    view_end(v);
    return rc;
}

void choice_done(struct choice *c)
{
    for (size_t i = 0; i < c->n_refused; i++)
        free(c->refused[i].why);
    free(c->refused);
    free(c->kept);
    *c = (struct choice){0};
}
