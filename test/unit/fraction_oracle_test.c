/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"

#include "partition/fraction.h"

/*
 * The search beside one that tries everything: no bounds, no cards that are alike, rules written
 * anew, the order of the cards among them. On small nodes and pods both find the same cards, or both
 * none.
 */

enum { CARDS = 4, MODELS = 2, ASKS = 4, MAX_SETS = 6, LIST_BYTES = 96, USUAL_CASES = 20000 };

/* A comma list of a pod, as text and as what it names. */
struct list {
    bool given;     /* it has items; otherwise it is NULL, or commas and blanks */
    unsigned named; /* bit i: card or model i */
    char text[LIST_BYTES];
};

struct trial {
    struct fraction_card cards[CARDS];
    unsigned models[CARDS]; /* of the cards, by number */
    uint16_t pairs[CARDS * CARDS];
    struct list use_models, no_models, use_uuids, no_uuids;
    struct fraction_ask asks[ASKS];
    struct fraction_node node;
    struct fraction_pod pod;
};

/* --- Cases --- */

static const char *const uuids[CARDS] = {"GPU-0", "GPU-1", "GPU-2", "GPU-3"};
static const char *const models[MODELS] = {"NVIDIA A100", "NVIDIA H100"};
static const char *const model_items[MODELS] = {"a100", "idia H1"};

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33) % n;
}

/* Few values, so that sums meet bounds and cards are often alike. What is offered divides SCALE. */
enum { SCALE = 200 };

static void random_card(struct trial *t, unsigned i)
{
    static const unsigned memories[] = {4, 5, 8, 10};
    static const unsigned shares[] = {1, 2, 4, 5};
    bool kin = below(3) > 0;
    struct fraction_card *c = &t->cards[i];
    t->models[i] = below(MODELS);
    *c = (struct fraction_card){.uuid = uuids[i],
                                .model = models[t->models[i]],
                                .numa = (int)below(4) - 1};
    c->total = (struct fraction_size){kin ? 8 : memories[below(4)], below(6) ? 100 : 200,
                                      shares[below(4)]};
    c->used = (struct fraction_size){below(3) * 2, below(3) * 25, below(2)};
    c->ill = below(12) == 0;
    c->cordoned = below(12) == 0;
}

static void random_ask(struct fraction_ask *a)
{
    static const unsigned percents[] = {0, 0, 25, 50, 75, 100};
    *a = (struct fraction_ask){.container = "c",
                               .phase = below(3) ? FRACTION_APP : (enum fraction_phase)below(3),
                               .count = below(4) ? 1 + below(2) : below(4),
                               .percent = percents[below(6)]};
    if (below(4))
        a->memory_mib = 1 + below(6);
    else
        a->memory_percent = 25 * (1 + below(4));
}

static void add_item(struct list *l, const char *item)
{
    static const char *const around[] = {"", " ", ",", " ,\t"};
    size_t len = strlen(l->text);
    (void)snprintf(l->text + len, sizeof(l->text) - len, "%s%s%s,", around[below(4)], item,
                   around[below(2)]);
}

/* strange: an item that names none of them. Returns the text; NULL: there is none. */
static const char *random_list(struct list *l, const char *const *items, unsigned n,
                               const char *strange)
{
    *l = (struct list){.given = below(8) == 0};
    if (!l->given)
        return below(2) ? NULL : " ,, ";
    l->named = below(1U << n);
    if (!l->named || below(2))
        add_item(l, strange);
    for (unsigned i = 0; i < n; i++)
        if (l->named >> i & 1)
            add_item(l, items[i]);
    return l->text;
}

/* Connections of few kinds, so that sets are often connected alike. */
static void random_pairs(struct trial *t)
{
    for (unsigned a = 0; a < t->node.n; a++)
        for (unsigned b = 0; b < a; b++)
            t->pairs[a * t->node.n + b] = t->pairs[b * t->node.n + a] = (uint16_t)below(4);
    t->node.pairs = below(4) ? t->pairs : NULL;
}

static void random_wish(struct trial *t)
{
    struct fraction_wish *w = &t->pod.wish;
    w->one_numa = below(4) == 0;
    w->use_models = random_list(&t->use_models, model_items, MODELS, "V100");
    w->no_models = random_list(&t->no_models, model_items, MODELS, "A1000");
    w->use_uuids = random_list(&t->use_uuids, uuids, CARDS, "GPU-");
    w->no_uuids = random_list(&t->no_uuids, uuids, CARDS, "gpu-0");
    w->n_policies = below(3);
    for (unsigned i = 0; i < w->n_policies; i++)
        w->policies[i] = (enum fraction_policy)below(FRACTION_N_POLICIES);
    if (below(2)) {
        w->weights.shares = below(3);
        w->weights.percent = below(3);
        w->weights.memory = below(4);
    }
}

static void random_trial(struct trial *t)
{
    *t = (struct trial){.node = {.cards = t->cards}, .pod = {.asks = t->asks}};
    t->node.n = below(8) ? 2 + below(CARDS - 1) : below(2);
    t->pod.n = 1 + below(ASKS);
    for (unsigned i = 0; i < t->node.n; i++)
        random_card(t, i);
    for (unsigned i = 0; i < t->pod.n; i++)
        random_ask(&t->asks[i]);
    random_pairs(t);
    random_wish(t);
}

/* --- The rules of one card --- */

static bool names(const struct list *l, unsigned i)
{
    return l->named >> i & 1;
}

static bool is_allowed(const struct trial *t, unsigned card)
{
    unsigned model = t->models[card];
    return (!t->use_models.given || names(&t->use_models, model)) && !names(&t->no_models, model) &&
           (!t->use_uuids.given || names(&t->use_uuids, card)) && !names(&t->no_uuids, card);
}

static bool has_policy(const struct trial *t, enum fraction_policy p)
{
    for (unsigned i = 0; i < t->pod.wish.n_policies; i++)
        if (t->pod.wish.policies[i] == p)
            return true;
    return false;
}

static bool takes(const struct trial *t, const struct fraction_card *now, unsigned card,
                  const struct fraction_ask *a)
{
    const struct fraction_card *c = &now[card];
    unsigned memory = a->memory_mib ? a->memory_mib : c->total.memory_mib * a->memory_percent / 100;
    if (has_policy(t, FRACTION_MUTEX) && c->used.shares > 0)
        return false;
    if (a->percent == 100 && c->total.percent == 100 && c->used.shares > 0)
        return false;
    if (a->percent == 0 && c->used.percent >= c->total.percent)
        return false;
    return !c->ill && !c->cordoned && is_allowed(t, card) &&
           c->used.shares + 1 <= c->total.shares &&
           c->used.memory_mib + memory <= c->total.memory_mib &&
           c->used.percent + a->percent <= c->total.percent;
}

static void put(struct fraction_card *c, const struct fraction_ask *a)
{
    c->used.memory_mib +=
        a->memory_mib ? a->memory_mib : c->total.memory_mib * a->memory_percent / 100;
    c->used.percent += a->percent;
    c->used.shares++;
}

/* --- The order of the cards --- */

/* Exact: what is offered divides SCALE. */
static int fullness(const struct trial *t, const struct fraction_card *c)
{
    const struct fraction_wish *w = &t->pod.wish;
    unsigned shares = c->used.shares * (SCALE / c->total.shares);
    unsigned percent = c->used.percent * (SCALE / c->total.percent);
    unsigned memory = c->used.memory_mib * (SCALE / c->total.memory_mib);
    if (w->weights.shares + w->weights.percent + w->weights.memory == 0)
        return (int)(shares + percent + memory);
    return (int)(w->weights.shares * shares + w->weights.percent * percent +
                 w->weights.memory * memory);
}

/* By the first policy that makes a difference; as spread where none is about the order. */
static bool is_before(const struct trial *t, const struct fraction_card *a,
                      const struct fraction_card *b)
{
    int fuller = fullness(t, a) - fullness(t, b);
    if (!has_policy(t, FRACTION_BINPACK) && !has_policy(t, FRACTION_SPREAD) &&
        !has_policy(t, FRACTION_NUMA))
        return fuller < 0;
    for (unsigned i = 0; i < t->pod.wish.n_policies; i++) {
        enum fraction_policy p = t->pod.wish.policies[i];
        if (p == FRACTION_BINPACK && fuller)
            return fuller > 0;
        if (p == FRACTION_SPREAD && fuller)
            return fuller < 0;
        if (p == FRACTION_NUMA && a->numa != b->numa)
            return a->numa > b->numa;
    }
    return false;
}

/* A card comes after all that are before it, and after those listed earlier that it is not before. */
static void order_cards(const struct trial *t, const struct fraction_card *now, uint8_t *ret)
{
    for (unsigned i = 0; i < t->node.n; i++) {
        unsigned place = 0;
        for (unsigned k = 0; k < t->node.n; k++)
            place += is_before(t, &now[k], &now[i]) || (k < i && !is_before(t, &now[i], &now[k]));
        ret[place] = (uint8_t)i;
    }
}

/* --- The sets of cards for one container --- */

/* All that fit, in the order in which they are tried. */
struct sets {
    struct {
        uint8_t cards[CARDS];
        int score;
    } items[MAX_SETS];
    unsigned n;
};

/* One container's turn. */
struct turn {
    const struct trial *trial;
    const struct fraction_card *now;
    const struct fraction_ask *ask;
    uint8_t order[CARDS];
    struct sets sets;
};

static int connection(const struct trial *t, unsigned a, unsigned b)
{
    return a == b ? 0 : t->node.pairs[a * t->node.n + b];
}

static int score(const struct turn *u, const uint8_t *set)
{
    const struct trial *t = u->trial;
    int sum = 0;
    if (!has_policy(t, FRACTION_TOPOLOGY) || !t->node.pairs)
        return 0;
    if (u->ask->count == 1)
        for (unsigned b = 0; b < t->node.n; b++)
            sum -= takes(t, u->now, b, u->ask) ? connection(t, set[0], b) : 0;
    else
        for (unsigned a = 0; a < u->ask->count; a++)
            for (unsigned b = 0; b < a; b++)
                sum += connection(t, set[a], set[b]);
    return sum;
}

/* Behind those that score as much. */
static void keep(struct turn *u, const uint8_t *set)
{
    struct sets *s = &u->sets;
    int own = score(u, set);
    unsigned at = s->n++;
    for (; at && s->items[at - 1].score < own; at--)
        s->items[at] = s->items[at - 1];
    memcpy(s->items[at].cards, set, sizeof(s->items[at].cards));
    s->items[at].score = own;
}

static bool may_join(const struct turn *u, const uint8_t *set, unsigned n, unsigned card)
{
    int numa = u->now[card].numa;
    return !u->trial->pod.wish.one_numa || n == 0 || (numa >= 0 && numa == u->now[set[0]].numa);
}

/* The sets that begin with these n cards; more are from this place of the order on. */
static void list_sets(struct turn *u, uint8_t *set, unsigned n, unsigned from)
{
    if (n == u->ask->count) {
        keep(u, set);
        return;
    }
    for (unsigned at = from; at < u->trial->node.n; at++) {
        unsigned card = u->order[at];
        if (!takes(u->trial, u->now, card, u->ask) || !may_join(u, set, n, card))
            continue;
        set[n] = (uint8_t)card;
        list_sets(u, set, n + 1, at + 1);
    }
}

/* --- The oracle --- */

static bool try_all(const struct trial *t, const struct fraction_card *now, unsigned i,
                    uint8_t cards[ASKS][CARDS])
{
    uint8_t set[CARDS] = {0};
    if (i == t->pod.n)
        return true;
    struct turn u = {.trial = t, .now = now, .ask = &t->asks[i]};
    order_cards(t, now, u.order);
    list_sets(&u, set, 0, 0);
    for (unsigned k = 0; k < u.sets.n; k++) {
        struct fraction_card next[CARDS];
        memcpy(next, now, sizeof(next));
        memcpy(cards[i], u.sets.items[k].cards, CARDS);
        for (unsigned j = 0; j < u.ask->count && u.ask->phase != FRACTION_INIT; j++)
            put(&next[cards[i][j]], u.ask);
        if (try_all(t, next, i + 1, cards))
            return true;
    }
    return false;
}

/* --- Both --- */

/* True when the pod fits. */
static bool compare(const struct trial *t, unsigned nth)
{
    static struct fraction_plan plan;
    struct err e = {0};
    uint8_t cards[ASKS][CARDS] = {0};
    bool fits = try_all(t, t->cards, 0, cards);
    int rc = fraction_search(&t->node, &t->pod, &plan, &e);
    cr_assert_eq(rc == 0, fits, "case %u: %s", nth, rc < 0 ? err_msg(&e) : "fits");
    for (unsigned i = 0; fits && i < t->pod.n; i++)
        cr_assert_eq(memcmp(plan.cards[i], cards[i], t->asks[i].count), 0, "case %u", nth);
    cr_assert(fits || e.kind != ERR_TOO_LARGE, "case %u", nth);
    err_clear(&e);
    return fits;
}

/* make torture takes a million of them. */
static unsigned cases(void)
{
    const char *text = getenv("FRACTION_CASES");
    int64_t n = USUAL_CASES;
    if (text)
        cr_assert_eq(num_parse(text, 1, INT32_MAX, &n, NULL), 0);
    return (unsigned)n;
}

Test(fraction_oracle, the_first_way_to_place_a_pod_is_found_if_there_is_one)
{
    unsigned n_fit = 0;
    unsigned n = cases();
    for (unsigned i = 0; i < n; i++) {
        struct trial t;
        seed = i;
        random_trial(&t);
        n_fit += compare(&t, i);
    }
    cr_assert(n_fit > n / 10 && n_fit < n - n / 10, "%u of %u fit: too easy", n_fit, n);
}
