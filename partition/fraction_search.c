/* SPDX-License-Identifier: Apache-2.0 */
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
    uint64_t listed;               /* the cards that the pod's lists allow */
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

/* The cards that take a share of ask i. */
static uint64_t fitting(const struct search *s, unsigned i)
{
    uint64_t set = 0;
    for (unsigned k = 0; k < s->node->n; k++)
        if (s->listed >> k & 1 && fraction_fit_listed(&s->cards[k], &s->pod->asks[i], &s->pod->wish,
                                                      FRACTION_FITS) == FRACTION_FITS)
            set |= 1ULL << k;
    return set;
}

/* The same, the preferred ones first. */
struct choice {
    uint8_t cards[FRACTION_MAX_CARDS];
    unsigned n;
};

static void choice_init(struct choice *c, const struct search *s, unsigned i)
{
    uint64_t set = fitting(s, i);
    uint8_t order[FRACTION_MAX_CARDS];
    c->n = 0;
    fraction_order(s->cards, s->node->n, &s->pod->wish, order);
    for (unsigned k = 0; k < s->node->n; k++)
        if (set >> order[k] & 1)
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
    return a->numa == b->numa && a->only_whole == b->only_whole && same_size(a->total, b->total) &&
           same_size(a->used, b->used);
}

/* The set with a card like this one in its place was tried before. */
static bool was_tried(const struct search *s, const struct choice *c, unsigned from, unsigned at)
{
    for (unsigned k = from; k < at; k++)
        if (are_alike(&s->cards[c->cards[k]], &s->cards[c->cards[at]]))
            return true;
    return false;
}

/* With one_numa: whether the container's other cards are on the same node. Cards whose node is not
 * known are on none together. */
static bool may_join(const struct search *s, unsigned i, unsigned n_chosen, unsigned card)
{
    int numa = s->cards[card].numa;
    return !s->pod->wish.one_numa || s->pod->asks[i].count == 1 ||
           (numa >= 0 && (!n_chosen || numa == s->cards[s->plan->cards[i][0]].numa));
}

/* With one_numa: whether the choice has as many cards as are missing on this one's node, itself and
 * what follows. */
static bool has_company(const struct search *s, const struct choice *c, unsigned at, unsigned more)
{
    unsigned n = 0;
    for (unsigned k = at; k < c->n && n < more; k++)
        n += s->cards[c->cards[k]].numa == s->cards[c->cards[at]].numa;
    return !s->pod->wish.one_numa || n == more;
}

/* All sets of the cards of a choice, in the order of the choice. */
static bool choose(struct search *s, unsigned i, const struct choice *c, unsigned from,
                   unsigned n_chosen)
{
    unsigned more = s->pod->asks[i].count - n_chosen;
    if (!more)
        return try_set(s, i);
    for (unsigned at = from; at + more <= c->n && s->steps < FRACTION_STEPS; at++) {
        if (was_tried(s, c, from, at) || !may_join(s, i, n_chosen, c->cards[at]) ||
            !has_company(s, c, at, more))
            continue;
        s->steps += s->node->n;
        s->plan->cards[i][n_chosen] = c->cards[at];
        if (choose(s, i, c, at + 1, n_chosen + 1))
            return true;
    }
    return false;
}

/* --- Sets by their connections --- */

struct scored {
    int64_t score;
    uint64_t set; /* of places in the choice */
};

static unsigned pair_score(const struct search *s, unsigned a, unsigned b)
{
    return s->node->pairs[a * s->node->n + b];
}

/* The sum of a card's connections with the others of the choice, negative, so that the well
 * connected ones are left for those who need several. */
static int64_t score_alone(const struct search *s, const struct choice *c, unsigned at)
{
    int64_t sum = 0;
    for (unsigned k = 0; k < c->n; k++)
        sum -= k == at ? 0 : pair_score(s, c->cards[at], c->cards[k]);
    return sum;
}

/* What a card adds to a set: its connections with those before it. */
static int64_t score_more(const struct search *s, const struct choice *c, const uint8_t *at,
                          unsigned k)
{
    int64_t sum = 0;
    for (unsigned b = 0; b < k; b++)
        sum += pair_score(s, c->cards[at[k]], c->cards[at[b]]);
    return sum;
}

enum {
    MAX_SETS = 13000,   /* more than all halves of 16 cards */
    LISTS_PER_STEP = 2, /* sets that are scored in the time of a step */
    READS_PER_STEP = 16 /* sets that are read again in the time of a step */
};

/* How many sets there are of this size among n; 0: too many. */
static unsigned count_sets(unsigned n, unsigned size)
{
    unsigned k = size < n - size ? size : n - size;
    uint64_t sets = 1;
    for (unsigned j = 1; j <= k && sets <= MAX_SETS; j++)
        sets = sets * (n - k + j) / j;
    return sets <= MAX_SETS ? (unsigned)sets : 0;
}

static bool set_joins(struct search *s, unsigned i, const struct choice *c, uint64_t set)
{
    unsigned n = 0;
    for (uint64_t rest = set; rest; rest &= rest - 1) {
        uint8_t card = c->cards[__builtin_ctzll(rest)];
        if (!may_join(s, i, n, card))
            return false;
        s->plan->cards[i][n++] = card;
    }
    return true;
}

/* All sets of the size that ask i has, in the order of the choice. Returns how many. */
static unsigned list_sets(struct search *s, unsigned i, const struct choice *c, struct scored *ret)
{
    unsigned size = s->pod->asks[i].count;
    uint8_t at[FRACTION_MAX_CARDS];
    struct scored first[FRACTION_MAX_CARDS + 1] = {{0}}; /* first[k]: of the first k places */
    unsigned same = 0; /* as many places are those of the set before */
    unsigned n = 0;
    for (unsigned k = 0; k < size; k++)
        at[k] = (uint8_t)k;
    for (;;) {
        for (unsigned k = same; k < size; k++) {
            first[k + 1].set = first[k].set | 1ULL << at[k];
            first[k + 1].score =
                size == 1 ? score_alone(s, c, at[k]) : first[k].score + score_more(s, c, at, k);
        }
        if (!s->pod->wish.one_numa || set_joins(s, i, c, first[size].set))
            ret[n++] = first[size];
        unsigned k = size;
        while (k && at[k - 1] == c->n - size + k - 1)
            k--;
        if (!k)
            return n;
        same = k - 1;
        at[same]++;
        for (; k < size; k++)
            at[k] = (uint8_t)(at[k - 1] + 1);
    }
}

/* Of equal ones the first. */
static struct scored *best_of(struct scored *sets, unsigned n)
{
    struct scored *best = sets;
    for (unsigned k = 1; k < n; k++)
        if (sets[k].score > best->score)
            best = &sets[k];
    return best;
}

/* The best connected set first. With more sets than can be listed the order is that of the choice,
 * as it is where connections are not known. */
static bool choose_connected(struct search *s, unsigned i, const struct choice *c)
{
    unsigned all = count_sets(c->n, s->pod->asks[i].count);
    if (!all)
        return choose(s, i, c, 0, 0);
    auto_free struct scored *sets = xcalloc(all, sizeof(*sets));
    unsigned n = list_sets(s, i, c, sets);
    s->steps += all / LISTS_PER_STEP;
    for (unsigned k = 0; k < n && s->steps < FRACTION_STEPS; k++) {
        struct scored *best = best_of(sets, n);
        s->steps += s->node->n + n / READS_PER_STEP;
        if (set_joins(s, i, c, best->set) && try_set(s, i))
            return true;
        best->score = INT64_MIN;
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
    s->steps += s->node->n;
    if (!may_fit(s, i))
        return false;
    choice_init(&c, s, i);
    if (c.n < s->pod->asks[i].count)
        return false;
    return by_connection(s) ? choose_connected(s, i, &c) : choose(s, i, &c, 0, 0);
}

/* Whether each container fits by itself. What is used only grows during the search. */
static bool fit_alone(const struct search *s)
{
    for (unsigned i = 0; i < s->pod->n; i++)
        if (s->pod->asks[i].count &&
            fraction_together(s->cards, fitting(s, i), &s->pod->wish) < s->pod->asks[i].count)
            return false;
    return true;
}

/* Each container fits by itself, so that its shares are no more than the cards. */
static void sum_rest(struct search *s)
{
    for (unsigned i = s->pod->n; i-- > 0;) {
        const struct fraction_ask *a = &s->pod->asks[i];
        s->rest[i] = s->rest[i + 1];
        for (unsigned k = 0; stands(a) && k < a->count; k++)
            s->rest[i] =
                fraction_add(s->rest[i], (struct fraction_size){a->memory_mib, a->percent, 1});
    }
}

static uint64_t listed_cards(const struct fraction_node *n, const struct fraction_wish *w)
{
    enum fraction_misfit why[FRACTION_MAX_CARDS];
    uint64_t set = 0;
    fraction_listed(n->cards, n->n, w, why);
    for (unsigned i = 0; i < n->n; i++)
        if (why[i] == FRACTION_FITS)
            set |= 1ULL << i;
    return set;
}

/* 0, or the kind of the error. listed: the cards that the pod's lists allow. Adds to the steps. */
static enum err_kind search(const struct fraction_node *n, const struct fraction_pod *p,
                            uint64_t listed, struct fraction_plan *ret, unsigned *steps)
{
    struct search s = {.node = n, .pod = p, .listed = listed, .plan = ret, .steps = *steps};
    if (n->n)
        memcpy(s.cards, n->cards, n->n * sizeof(s.cards[0]));
    if (!fit_alone(&s))
        return ERR_UNAVAILABLE;
    sum_rest(&s);
    bool found = place_from(&s, 0);
    *steps = s.steps;
    if (found)
        return 0;
    return s.steps < FRACTION_STEPS ? ERR_UNAVAILABLE : ERR_TOO_LARGE;
}

static int check_bounds(const struct fraction_node *n, const struct fraction_pod *p, struct err *e)
{
    if (n->n > FRACTION_MAX_CARDS)
        return err_set(e, ERR_TOO_LARGE,
                       "the node has %u cards for shares, and at most %d are "
                       "allowed",
                       n->n, FRACTION_MAX_CARDS);
    if (p->n > FRACTION_MAX_CONTAINERS)
        return err_set(e, ERR_TOO_LARGE,
                       "the pod has %u containers, and at most %d are allowed: "
                       "put them into several pods",
                       p->n, FRACTION_MAX_CONTAINERS);
    return 0;
}

int fraction_search(const struct fraction_node *n, const struct fraction_pod *p,
                    struct fraction_plan *ret, struct err *e)
{
    struct fraction_card empty[FRACTION_MAX_CARDS];
    struct fraction_node later = *n;
    struct fraction_plan plan;
    unsigned steps = 0;
    TRY(check_bounds(n, p, e));
    uint64_t listed = listed_cards(n, &p->wish);
    enum err_kind kind = search(n, p, listed, &plan, &steps);
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
    if (search(&later, p, listed, &plan, &steps) == ERR_UNAVAILABLE) {
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
        struct fraction_size now = fraction_add(standing, share);
        if (stands(a))
            standing = now;
        most.memory_mib = now.memory_mib > most.memory_mib ? now.memory_mib : most.memory_mib;
        most.percent = now.percent > most.percent ? now.percent : most.percent;
        most.shares = now.shares > most.shares ? now.shares : most.shares;
    }
    return most;
}
