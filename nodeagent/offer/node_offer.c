/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/node_offer.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/offer/sharing.h"
#include "partition/resource_names.h"

/* --- Plans --- */

/* True while the change is being carried out, or waits because something is in use. */
static bool needs_plan(const struct card_memo *m)
{
    return m->beginning || m->progress == PROGRESS_PENDING ||
           (m->progress == PROGRESS_DONE && m->result.outcome == TXN_IN_USE);
}

static struct card_plan *plan_of(const struct node_state *s, const struct gpu_card *card)
{
    struct card_wish wish;
    const struct device_want *want = node_state_want(s, card->uuid);
    const struct card_memo *m = node_state_memo(s, card->uuid);
    if (!want || !m || !needs_plan(m) || card_wish_of(card, want, &wish, NULL) < 0)
        return NULL;
    assert(wish.mode == (enum gpu_mode)want->mode);
    struct card_plan *plan = xmalloc(sizeof(*plan));
    card_plan(card, &wish, plan);
    return plan;
}

/* --- Cards --- */

/* True while the change is being carried out, or pods are being evicted for it. A card that only
 * waits, or whose drain took too long, offers everything. */
static bool is_under_way(const struct device_want *want, const struct card_memo *m,
                         const struct card_plan *plan, int64_t now_ms)
{
    bool drains = plan->verdict == CARD_DRAIN && card_memo_drains(want, m, now_ms);
    if (m->progress == PROGRESS_PENDING || m->beginning)
        return plan->verdict == CARD_CHANGE || drains;
    return drains;
}

static const struct busy_card *find_busy(const struct node_state *s, const char *uuid)
{
    for (size_t i = 0; i < s->n_busy; i++)
        if (strcmp(s->busy[i].uuid, uuid) == 0)
            return &s->busy[i];
    return NULL;
}

/* The card's offer, without what a change is about to destroy: the next pod would be granted it. */
static void offer_card(const struct node_state *s, const struct card_view *v,
                       const struct card_plan *plan, int64_t now_ms, struct card_offer *ret)
{
    const struct device_want *want = node_state_want(s, v->card.uuid);
    const struct busy_card *busy = find_busy(s, v->card.uuid);
    bool changes = busy && busy->changes;
    *ret = changes ? busy->offer : (struct card_offer){0};
    if (changes || v->outdated)
        return;
    if (want ? want->mode != (int)v->card.mode : unended_find(s->unended, v->card.uuid) != NULL)
        return;
    card_offer_of(&v->card, ret);
    if (plan && is_under_way(want, node_state_memo(s, v->card.uuid), plan, now_ms))
        card_offer_withdraw(ret, &plan->steps);
}

/* --- Names --- */

/* A card that is about to be cut does not influence the names of resources. */
static int strategy_in_force(const struct node_state *s, const struct card_offer *offers)
{
    auto_free struct resolve_card *views = xcalloc(s->n_cards, sizeof(*views));
    struct profile_count **counts = xcalloc(s->n_cards, sizeof(struct profile_count *));
    for (size_t i = 0; i < s->n_cards; i++)
        card_resolve_offered(&s->cards[i].card, &offers[i], &views[i], &counts[i]);
    int strategy =
        resource_strategy(views, s->n_cards, s->spec, sharing_strategy(s->config, s->spec));
    for (size_t i = 0; i < s->n_cards; i++)
        card_resolve_counts_free(counts[i], views[i].n_partitions);
    free(counts);
    return strategy;
}

void node_offer_build(const struct node_state *s, int64_t now_ms, struct node_offer *ret)
{
    *ret = (struct node_offer){
        .cards = xcalloc(s->n_cards, sizeof(*ret->cards)),
        .plans = xcalloc(s->n_cards, sizeof(struct card_plan *)),
        .n = s->n_cards,
    };
    for (size_t i = 0; i < s->n_cards; i++) {
        ret->plans[i] = plan_of(s, &s->cards[i].card);
        offer_card(s, &s->cards[i], ret->plans[i], now_ms, &ret->cards[i]);
    }
    ret->strategy = strategy_in_force(s, ret->cards);
    assert(ret->strategy >= API_STRATEGY_NONE && ret->strategy <= API_STRATEGY_MIXED);
    ret->mixed_instead_of_single =
        s->n_cards && ret->strategy != sharing_strategy(s->config, s->spec);
    device_table_build(s, ret->cards, ret->strategy, &ret->table);
}

void node_offer_done(struct node_offer *o)
{
    for (size_t i = 0; i < o->n; i++)
        free(o->plans[i]);
    free(o->plans);
    free(o->cards);
    device_table_done(&o->table);
    *o = (struct node_offer){0};
}
