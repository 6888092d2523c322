/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "partition/fraction.h"
#include "partition/fraction_words.h"

/*
 * Depth first: for each container in turn its sets of cards are tried, the preferred ones first,
 * until the rest of the containers fit as well.
 */

/* Sets are words with bit i for card i. */
struct search {
    const struct fraction_node *node;
    const struct fraction_pod *pod;
    struct fraction_card
        cards[FRACTION_MAX_CARDS]; /* with what stands at this point of the search */
    /* Of the asks from i to the end that stand beside each other: the least that they take. */
    struct fraction_size rest[FRACTION_MAX_CONTAINERS + 1];
    struct fraction_plan *plan;
    unsigned steps;
};

static bool place_from(struct search *s, unsigned i);

/* --- One container's set --- */

static bool stands(const struct fraction_ask *a)
{
    return a->phase != FRACTION_INIT;
}

/* Puts the shares of ask i onto the cards (sign 1), or takes them off (-1). */
static void apply(struct search *s, unsigned i, int sign)
{
    const struct fraction_ask *a = &s->pod->asks[i];
    for (unsigned k = 0; stands(a) && k < a->count; k++) {
        struct fraction_card *c = &s->cards[s->plan->cards[i][k]];
        struct fraction_size share = fraction_share(c, a);
        c->used.memory_mib += (unsigned)sign * share.memory_mib;
        c->used.percent += (unsigned)sign * share.percent;
        c->used.shares += (unsigned)sign * share.shares;
    }
}

static bool try_set(struct search *s, unsigned i)
{
    apply(s, i, 1);
    if (place_from(s, i + 1))
        return true;
    apply(s, i, -1);
    return false;
}

/* The cards that take a share of ask i, the preferred ones first. */
struct choice {
    uint8_t cards[FRACTION_MAX_CARDS];
    unsigned n;
};

static void choice_init(struct choice *c, const struct search *s, unsigned i)
{
    const struct fraction_wish *w = &s->pod->wish;
    uint8_t order[FRACTION_MAX_CARDS];
    c->n = 0;
    fraction_order(s->cards, s->node->n, w, order);
    for (unsigned k = 0; k < s->node->n; k++)
        if (fraction_fit(&s->cards[order[k]], &s->pod->asks[i], w) == FRACTION_FITS)
            c->cards[c->n++] = order[k];
}

static bool same_size(struct fraction_size a, struct fraction_size b)
{
    return a.memory_mib == b.memory_mib && a.percent == b.percent && a.shares == b.shares;
}

/* Whatever holds with one of them holds with the other: the wishes of a pod are those of all its
 * containers. */
static bool are_alike(const struct fraction_card *a, const struct fraction_card *b)
{
    return a->numa == b->numa && same_size(a->total, b->total) && same_size(a->used, b->used);
}

/* The set with a card like this one in its place was tried before. */
static bool was_tried(const struct search *s, const struct choice *c, unsigned from, unsigned at)
{
    for (unsigned k = from; k < at; k++)
        if (are_alike(&s->cards[c->cards[k]], &s->cards[c->cards[at]]))
            return true;
    return false;
}

static bool may_join(const struct search *s, unsigned i, unsigned n_chosen, unsigned card)
{
    return !s->pod->wish.one_numa || !n_chosen ||
           s->cards[card].numa == s->cards[s->plan->cards[i][0]].numa;
}

/* All sets of the cards of a choice, in the order of the choice. */
static bool choose(struct search *s, unsigned i, const struct choice *c, unsigned from,
                   unsigned n_chosen)
{
    unsigned more = s->pod->asks[i].count - n_chosen;
    if (!more)
        return try_set(s, i);
    for (unsigned at = from; at + more <= c->n && s->steps < FRACTION_STEPS; at++) {
        if (was_tried(s, c, from, at) || !may_join(s, i, n_chosen, c->cards[at]))
            continue;
        s->steps++;
        s->plan->cards[i][n_chosen] = c->cards[at];
        if (choose(s, i, c, at + 1, n_chosen + 1))
            return true;
    }
    return false;
}

/* --- Sets by their connections --- */

struct scored {
    int64_t score;
    uint32_t nth; /* in the order of the choice */
    uint64_t set; /* of places in the choice */
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->nth > y->nth) - (x->nth < y->nth);
}

static unsigned pair_score(const struct search *s, unsigned a, unsigned b)
{
    return s->node->pairs[a * s->node->n + b];
}

/* The sum over the pairs of the set; of a single card, the sum of its connections, negative, so
 * that the well connected ones are left for those who need several. */
static int64_t score_of(const struct search *s, const uint8_t *cards, unsigned n)
{
    int64_t sum = 0;
    for (unsigned k = 0; n == 1 && k < s->node->n; k++)
        sum -= k == cards[0] ? 0 : pair_score(s, cards[0], k);
    for (unsigned a = 0; a < n; a++)
        for (unsigned b = a + 1; b < n; b++)
            sum += pair_score(s, cards[a], cards[b]);
    return sum;
}

/* More than all halves of 16 cards. */
enum { MAX_SETS = 13000 };

static bool list_sets(const struct search *s, const struct choice *c, unsigned size,
                      struct scored *ret, unsigned *ret_n)
{
    uint8_t at[FRACTION_MAX_CARDS];
    uint8_t cards[FRACTION_MAX_CARDS];
    for (unsigned k = 0; k < size; k++)
        at[k] = (uint8_t)k;
    for (*ret_n = 0; *ret_n < MAX_SETS;) {
        struct scored *set = &ret[*ret_n];
        *set = (struct scored){.nth = (*ret_n)++};
        for (unsigned k = 0; k < size; k++) {
            set->set |= 1ULL << at[k];
            cards[k] = c->cards[at[k]];
        }
        set->score = score_of(s, cards, size);
        unsigned k = size;
        while (k && at[k - 1] == c->n - size + k - 1)
            k--;
        if (!k)
            return true;
        at[k - 1]++;
        for (; k < size; k++)
            at[k] = (uint8_t)(at[k - 1] + 1);
    }
    return false;
}

static bool set_joins(struct search *s, unsigned i, const struct choice *c, uint64_t set)
{
    unsigned n = 0;
    for (unsigned at = 0; at < c->n; at++) {
        if (!(set >> at & 1))
            continue;
        if (!may_join(s, i, n, c->cards[at]))
            return false;
        s->plan->cards[i][n++] = c->cards[at];
    }
    return true;
}

/* The best connected set first. With more sets than can be listed the order is that of the choice,
 * as it is where connections are not known. */
static bool choose_connected(struct search *s, unsigned i, const struct choice *c)
{
    unsigned n = 0;
    auto_free struct scored *sets = xcalloc(MAX_SETS, sizeof(*sets));
    if (!list_sets(s, c, s->pod->asks[i].count, sets, &n))
        return choose(s, i, c, 0, 0);
    qsort(sets, n, sizeof(*sets), by_score);
    for (unsigned k = 0; k < n && s->steps < FRACTION_STEPS; k++) {
        s->steps++;
        if (set_joins(s, i, c, sets[k].set) && try_set(s, i))
            return true;
    }
    return false;
}

static bool by_connection(const struct search *s)
{
    const struct fraction_wish *w = &s->pod->wish;
    bool wanted = false;
    for (unsigned k = 0; k < w->n_policies; k++)
        wanted |= w->policies[k] == FRACTION_TOPOLOGY;
    return wanted && s->node->pairs;
}

/* --- All containers --- */

/* False when what is left of the cards together is less than what the rest takes at the least. */
static bool may_fit(const struct search *s, unsigned i)
{
    uint64_t memory = 0;
    uint64_t percent = 0;
    uint64_t shares = 0;
    for (unsigned k = 0; k < s->node->n; k++) {
        struct fraction_size room = fraction_room(&s->cards[k]);
        memory += room.memory_mib;
        percent += room.percent;
        shares += room.shares;
    }
    return s->rest[i].memory_mib <= memory && s->rest[i].percent <= percent &&
           s->rest[i].shares <= shares;
}

static bool place_from(struct search *s, unsigned i)
{
    struct choice c;
    while (i < s->pod->n && !s->pod->asks[i].count)
        i++;
    if (i == s->pod->n)
        return true;
    if (!may_fit(s, i))
        return false;
    choice_init(&c, s, i);
    if (c.n < s->pod->asks[i].count)
        return false;
    return by_connection(s) ? choose_connected(s, i, &c) : choose(s, i, &c, 0, 0);
}

static unsigned plus(unsigned a, uint64_t b)
{
    return b < UINT32_MAX - a ? a + (unsigned)b : UINT32_MAX;
}

static void sum_rest(struct search *s)
{
    for (unsigned i = s->pod->n; i-- > 0;) {
        const struct fraction_ask *a = &s->pod->asks[i];
        uint64_t count = stands(a) ? a->count : 0;
        s->rest[i] = s->rest[i + 1];
        s->rest[i].memory_mib = plus(s->rest[i].memory_mib, count * a->memory_mib);
        s->rest[i].percent = plus(s->rest[i].percent, count * a->percent);
        s->rest[i].shares = plus(s->rest[i].shares, count);
    }
}

/* 0, or the kind of the error. */
static enum err_kind search(const struct fraction_node *n, const struct fraction_pod *p,
                            struct fraction_plan *ret)
{
    struct search s = {.node = n, .pod = p, .plan = ret};
    assert(n->n <= FRACTION_MAX_CARDS && p->n <= FRACTION_MAX_CONTAINERS);
    if (n->n)
        memcpy(s.cards, n->cards, n->n * sizeof(s.cards[0]));
    sum_rest(&s);
    if (place_from(&s, 0))
        return 0;
    return s.steps < FRACTION_STEPS ? ERR_UNAVAILABLE : ERR_TOO_LARGE;
}

int fraction_search(const struct fraction_node *n, const struct fraction_pod *p,
                    struct fraction_plan *ret, struct err *e)
{
    struct fraction_card empty[FRACTION_MAX_CARDS];
    struct fraction_node later = *n;
    struct fraction_plan plan;
    enum err_kind kind = search(n, p, &plan);
    if (!kind) {
        *ret = plan;
        return 0;
    }
    if (kind == ERR_TOO_LARGE)
        return err_set(e, kind,
                       "no way was found in %d steps to place all containers: ask for fewer or "
                       "smaller shares in one pod",
                       FRACTION_STEPS);
    for (unsigned i = 0; i < n->n; i++) {
        empty[i] = n->cards[i];
        empty[i].used = (struct fraction_size){0};
        empty[i].ill = false;
        empty[i].cordoned = false;
    }
    later.cards = empty;
    if (search(&later, p, &plan) == ERR_UNAVAILABLE) {
        kind = ERR_INVALID;
        n = &later;
    }
    auto_free char *why = fraction_words(n, p);
    return err_set(e, kind, "%s", why);
}

struct fraction_size fraction_peak(const struct fraction_node *n, const struct fraction_pod *p,
                                   const struct fraction_plan *plan, unsigned i)
{
    struct fraction_size standing = {0};
    struct fraction_size most = {0};
    for (unsigned k = 0; k < p->n; k++) {
        const struct fraction_ask *a = &p->asks[k];
        if (!memchr(plan->cards[k], (int)i, a->count))
            continue;
        struct fraction_size share = fraction_share(&n->cards[i], a);
        struct fraction_size now = {standing.memory_mib + share.memory_mib,
                                    standing.percent + share.percent, standing.shares + 1};
        if (stands(a))
            standing = now;
        most.memory_mib = now.memory_mib > most.memory_mib ? now.memory_mib : most.memory_mib;
        most.percent = now.percent > most.percent ? now.percent : most.percent;
        most.shares = now.shares > most.shares ? now.shares : most.shares;
    }
    return most;
}
