/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/card_choice.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

/*
 * The rules as one number. Rules 1 and 2 are sums over the pairs of the set. Rule 3 is one, too:
 * with rule 1 tied, the rest is worth most where the pairs of the chosen cards with all available
 * cards are worth least. The unit of a rule exceeds all that the rules below it can sum up to:
 *
 *   rule 3   64 cards * 63 pairs * 3660 (36 links on one board)  < 2^24
 *   rule 2   2016 pairs * 2^24                                   < 2^35
 *   rule 1   2016 pairs * 3660 * 2^36                            < 2^59
 */
#define MOST_LINKS 36
#define NUMA_UNIT  ((int64_t)1 << 24)
#define SCORE_UNIT ((int64_t)1 << 36)

/* Bound on the cards from which a greedy choice starts. */
#define MOST_SEEDS 16

#define NO_TWIN UINT8_MAX

static_assert(GPU_MAX_CARDS <= 64 && GPU_MAX_CARDS < NO_TWIN, "a set of cards is a word");
static_assert(60 + 100 * MOST_LINKS <= UINT16_MAX, "a pair's score");
static_assert((int64_t)GPU_MAX_CARDS * (GPU_MAX_CARDS - 1) * (60 + 100 * MOST_LINKS) < NUMA_UNIT,
              "rule 3 never outweighs rule 2");
static_assert(GPU_MAX_CARDS * (GPU_MAX_CARDS - 1) / 2 * NUMA_UNIT < SCORE_UNIT,
              "rule 2 never outweighs rule 1");

/* For arrays that are filled only as far as they are used: a release build zeroes every local,
 * which would cost more than the search. */
#define UNINITIALIZED __attribute__((uninitialized))

/* The cards that are open to choice, numbered from 0 in the order of their indices. */
struct open_cards {
    unsigned n, take; /* 0 < take < n */
    uint8_t index[GPU_MAX_CARDS];
    int64_t pair[GPU_MAX_CARDS][GPU_MAX_CARDS];
    int64_t alone[GPU_MAX_CARDS]; /* what a card adds with the required ones, and to the rest */
    /* The card before it with the same connections to every available card. The two are
     * interchangeable, so the earlier one is taken first. NO_TWIN: none. */
    uint8_t twin[GPU_MAX_CARDS];
};

static unsigned count_of(uint64_t set)
{
    return (unsigned)__builtin_popcountll(set);
}

static bool has(uint64_t set, unsigned i)
{
    return set >> i & 1;
}

/* --- scores --- */

static uint16_t way_score(uint8_t level, int numa_a, int numa_b)
{
    switch ((enum gpu_level)level) {
    case GPU_LEVEL_BOARD:
        return 60;
    case GPU_LEVEL_SWITCH:
        return 50;
    case GPU_LEVEL_SWITCHES:
        return 40;
    case GPU_LEVEL_HOST_BRIDGE:
        return 30;
    case GPU_LEVEL_NODE:
        return 20;
    case GPU_LEVEL_SYSTEM:
        return 10;
    case GPU_LEVEL_UNKNOWN:
        break;
    }
    if (numa_a < 0 || numa_b < 0)
        return 0;
    return numa_a == numa_b ? 20 : 10;
}

void card_scores_init(struct card_scores *s, const struct gpu_topology *t, const int *numa_nodes)
{
    assert(t->n_cards <= GPU_MAX_CARDS);
    *s = (struct card_scores){.numa = {0}};
    for (size_t a = 0; a < t->n_cards; a++) {
        s->numa[a] = (int16_t)(numa_nodes[a] > INT16_MAX ? -1 : numa_nodes[a]);
        for (size_t b = 0; b < t->n_cards; b++) {
            struct gpu_pair p = gpu_pair_between(t, a, b);
            unsigned links = p.links < MOST_LINKS ? p.links : MOST_LINKS;
            if (a != b)
                s->pair[a][b] =
                    (uint16_t)(way_score(p.level, numa_nodes[a], numa_nodes[b]) + 100 * links);
        }
    }
}

/* --- the question in numbers --- */

static int64_t worth(const struct card_scores *s, unsigned a, unsigned b)
{
    bool same_node = s->numa[a] >= 0 && s->numa[a] == s->numa[b];
    return s->pair[a][b] * SCORE_UNIT + (same_node ? NUMA_UNIT : 0);
}

static int64_t worth_alone(const struct card_question *q, unsigned card)
{
    int64_t sum = 0;
    for (uint64_t rest = q->available & ~(1ULL << card); rest; rest &= rest - 1) {
        unsigned other = (unsigned)__builtin_ctzll(rest);
        sum -= q->scores->pair[card][other];
        if (has(q->required, other))
            sum += worth(q->scores, card, other);
    }
    return sum;
}

static bool are_twins(const struct open_cards *o, unsigned a, unsigned b)
{
    if (o->alone[a] != o->alone[b])
        return false;
    for (unsigned i = 0; i < o->n; i++)
        if (i != a && i != b && o->pair[a][i] != o->pair[b][i])
            return false;
    return true;
}

/* `alone` has the required cards as one sum only. Two cards that differ in single connections to
 * them, but not in the sum, are still interchangeable, because the required cards are in every
 * answer. */
static void find_twins(struct open_cards *o)
{
    for (unsigned i = 0; i < o->n; i++) {
        unsigned before = i;
        while (before > 0 && !are_twins(o, before - 1, i))
            before--;
        o->twin[i] = before > 0 ? (uint8_t)(before - 1) : NO_TWIN;
    }
}

static void open_cards_of(const struct card_question *q, struct open_cards *ret)
{
    ret->n = 0;
    ret->take = q->size - count_of(q->required);
    for (uint64_t rest = q->available & ~q->required; rest; rest &= rest - 1)
        ret->index[ret->n++] = (uint8_t)__builtin_ctzll(rest);
    assert(ret->take > 0 && ret->take < ret->n);
    for (unsigned i = 0; i < ret->n; i++) {
        ret->alone[i] = worth_alone(q, ret->index[i]);
        for (unsigned j = 0; j < ret->n; j++)
            ret->pair[i][j] = i == j ? 0 : worth(q->scores, ret->index[i], ret->index[j]);
    }
    find_twins(ret);
}

static uint64_t cards_of(const struct open_cards *o, uint64_t set)
{
    uint64_t cards = 0;
    for (; set; set &= set - 1)
        cards |= 1ULL << o->index[__builtin_ctzll(set)];
    return cards;
}

/* --- greedy, and exchanges of one card --- */

/* A set being built. gain: what each card would add to it, or a member has added. */
struct draft {
    uint64_t set;
    int64_t value;
    int64_t gain[GPU_MAX_CARDS];
};

static void draft_flip(const struct open_cards *o, struct draft *d, unsigned card)
{
    bool leaves = has(d->set, card);
    d->value += leaves ? -d->gain[card] : d->gain[card];
    d->set ^= 1ULL << card;
    for (unsigned i = 0; i < o->n; i++)
        d->gain[i] += leaves ? -o->pair[card][i] : o->pair[card][i];
}

static unsigned best_gain(const struct open_cards *o, const struct draft *d)
{
    unsigned best = o->n;
    for (unsigned i = 0; i < o->n; i++)
        if (!has(d->set, i) && (best == o->n || d->gain[i] > d->gain[best]))
            best = i;
    assert(best < o->n); /* fewer are taken than are open */
    return best;
}

static void grow_from(const struct open_cards *o, unsigned seed, struct draft *ret)
{
    *ret = (struct draft){.set = 0};
    memcpy(ret->gain, o->alone, o->n * sizeof(o->alone[0]));
    draft_flip(o, ret, seed);
    for (unsigned have = 1; have < o->take; have++)
        draft_flip(o, ret, best_gain(o, ret));
    assert(count_of(ret->set) == o->take);
}

/* The best exchange. False: none improves the set. */
static bool exchange(const struct open_cards *o, struct draft *d)
{
    int64_t most = 0;
    unsigned in = 0;
    unsigned out = 0;
    for (unsigned a = 0; a < o->n; a++) {
        for (unsigned b = 0; has(d->set, a) && b < o->n; b++) {
            int64_t more = d->gain[b] - d->gain[a] - o->pair[a][b];
            if (has(d->set, b) || more <= most)
                continue;
            most = more;
            out = a;
            in = b;
        }
    }
    if (most == 0)
        return false;
    draft_flip(o, d, out);
    draft_flip(o, d, in);
    return true;
}

static void choose_greedily(const struct open_cards *o, struct draft *ret)
{
    struct draft d UNINITIALIZED;
    unsigned seeds = 0;
    *ret = (struct draft){.value = INT64_MIN};
    for (unsigned i = 0; i < o->n && seeds < MOST_SEEDS; i++) {
        if (o->twin[i] != NO_TWIN)
            continue;
        seeds++;
        grow_from(o, i, &d);
        if (d.value > ret->value)
            *ret = d;
    }
    assert(seeds > 0); /* the first card has no twin before it */
    while (exchange(o, ret))
        ;
}

/* --- branch and bound --- */

struct search {
    const struct open_cards *o;
    unsigned steps, most_steps;
    uint64_t set, best_set;
    int64_t best; /* the value to exceed */
    /* reach[i][r]: card i gains at most twice this from any r other cards. */
    int64_t reach[GPU_MAX_CARDS][GPU_MAX_CARDS];
    int64_t gain[GPU_MAX_CARDS][GPU_MAX_CARDS]; /* by depth: what each card would add */
};

/* Inserts a value into a descending list with at most `room` entries. */
static unsigned insert_largest(int64_t *list, unsigned n, unsigned room, int64_t value)
{
    if (n == room && (room == 0 || value <= list[n - 1]))
        return n;
    unsigned at = n < room ? n++ : n - 1;
    for (; at > 0 && list[at - 1] < value; at--)
        list[at] = list[at - 1];
    list[at] = value;
    return n;
}

static void find_reach(struct search *s)
{
    const struct open_cards *o = s->o;
    for (unsigned i = 0; i < o->n; i++) {
        int64_t largest[GPU_MAX_CARDS] UNINITIALIZED;
        unsigned n = 0;
        int64_t sum = 0;
        for (unsigned j = 0; j < o->n; j++)
            if (j != i)
                n = insert_largest(largest, n, o->take - 1, o->pair[i][j]);
        s->reach[i][0] = 0;
        for (unsigned r = 0; r < n; r++) {
            sum += largest[r];
            s->reach[i][r + 1] = (sum + 1) / 2;
        }
    }
}

/* ret[i]: no set of `left` cards from `from` on whose first card is i adds more than this. */
static void find_bounds(const struct search *s, unsigned depth, unsigned from, unsigned left,
                        int64_t *ret)
{
    int64_t largest[GPU_MAX_CARDS] UNINITIALIZED; /* the cards after i, at most left - 1 */
    unsigned n = 0;
    int64_t sum = 0;
    assert(from < s->o->n);
    for (unsigned i = s->o->n; i-- > from;) {
        int64_t most = s->gain[depth][i] + s->reach[i][left - 1];
        ret[i] = sum + most;
        if (n < left - 1)
            sum += most;
        else if (most > largest[n - 1])
            sum += most - largest[n - 1];
        n = insert_largest(largest, n, left - 1, most);
    }
}

/* The first of two twins must be taken first. */
static bool may_take(const struct search *s, unsigned card)
{
    uint8_t twin = s->o->twin[card];
    return twin == NO_TWIN || has(s->set, twin);
}

static void take_last(struct search *s, unsigned depth, unsigned from, int64_t value)
{
    for (unsigned i = from; i < s->o->n; i++) {
        if (value + s->gain[depth][i] <= s->best || !may_take(s, i))
            continue;
        s->best = value + s->gain[depth][i];
        s->best_set = s->set | 1ULL << i;
    }
}

/* Sets are visited in the order of rule 4, so of equal ones the first is kept. */
static void visit(struct search *s, unsigned depth, unsigned from, int64_t value)
{
    int64_t bounds[GPU_MAX_CARDS] UNINITIALIZED;
    unsigned left = s->o->take - depth;
    assert(left > 0 && from + left <= s->o->n);
    if (s->steps++ >= s->most_steps)
        return;
    if (left == 1) {
        take_last(s, depth, from, value);
        return;
    }
    find_bounds(s, depth, from, left, bounds);
    for (unsigned i = from; i + left <= s->o->n; i++) {
        if (value + bounds[i] <= s->best || !may_take(s, i))
            continue;
        for (unsigned j = i + 1; j < s->o->n; j++)
            s->gain[depth + 1][j] = s->gain[depth][j] + s->o->pair[i][j];
        s->set |= 1ULL << i;
        visit(s, depth + 1, i + 1, value + s->gain[depth][i]);
        s->set &= ~(1ULL << i);
    }
}

/* The greedy set is the bound until the search finds one as good, which then is the first of
 * them. */
static uint64_t search(const struct open_cards *o)
{
    struct draft greedy UNINITIALIZED;
    struct search s UNINITIALIZED;
    choose_greedily(o, &greedy);
    s.o = o;
    s.steps = 0;
    s.most_steps = o->n > CARD_CHOICE_EXACT ? CARD_CHOICE_STEPS : UINT_MAX;
    s.set = 0;
    s.best_set = greedy.set;
    s.best = greedy.value - 1;
    memcpy(s.gain[0], o->alone, o->n * sizeof(o->alone[0]));
    find_reach(&s);
    visit(&s, /* depth= */ 0, /* from= */ 0, /* value= */ 0);
    assert(count_of(s.best_set) == o->take && s.best >= greedy.value - 1);
    return s.best_set;
}

/* --- the answer --- */

static int check_question(const struct card_question *q, struct err *e)
{
    if (q->required & ~q->available)
        return err_set(e, ERR_INVALID, "card %d is required and not available",
                       __builtin_ctzll(q->required & ~q->available));
    if (count_of(q->required) > q->size)
        return err_set(e, ERR_INVALID, "%u cards are required and only %u wanted",
                       count_of(q->required), q->size);
    if (q->size > count_of(q->available))
        return err_set(e, ERR_INVALID, "%u cards are wanted and only %u available", q->size,
                       count_of(q->available));
    return 0;
}

int card_choice(const struct card_question *q, uint64_t *ret, struct err *e)
{
    struct open_cards o UNINITIALIZED;
    assert(q->scores && ret);
    TRY(check_question(q, e));
    if (q->size == count_of(q->required) || q->size == count_of(q->available)) {
        *ret = q->size == count_of(q->available) ? q->available : q->required;
        return 0;
    }
    open_cards_of(q, &o);
    *ret = q->required | cards_of(&o, search(&o));
    assert(count_of(*ret) == q->size && !(*ret & ~q->available));
    return 0;
}
