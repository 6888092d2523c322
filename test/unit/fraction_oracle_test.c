/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"

#include "partition/fraction.h"

/*
 * The search beside one that tries everything: no bounds, no cards that are alike, rules written
 * anew. On small nodes and pods both find the same cards, or both none.
 */

enum { CARDS = 4, ASKS = 4, USUAL_CASES = 20000 };

struct trial {
    struct fraction_card cards[CARDS];
    struct fraction_ask asks[ASKS];
    struct fraction_node node;
    struct fraction_pod pod;
};

/* --- Cases --- */

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33) % n;
}

/* Few values, so that sums meet bounds and cards are often alike. */
static void random_card(struct fraction_card *c)
{
    static const char *const models[] = {"A100", "H100"};
    bool kin = below(3) > 0;
    *c =
        (struct fraction_card){.uuid = "GPU", .model = models[below(2)], .numa = (int)below(4) - 1};
    c->total = (struct fraction_size){kin ? 8 : 4 + below(8), below(6) ? 100 : 200, 1 + below(4)};
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

static void random_trial(struct trial *t)
{
    *t = (struct trial){.node = {.cards = t->cards, .n = below(CARDS + 1)},
                        .pod = {.asks = t->asks, .n = 1 + below(ASKS)}};
    for (unsigned i = 0; i < t->node.n; i++)
        random_card(&t->cards[i]);
    for (unsigned i = 0; i < t->pod.n; i++)
        random_ask(&t->asks[i]);
    struct fraction_wish *w = &t->pod.wish;
    w->one_numa = below(4) == 0;
    w->use_models = below(4) ? NULL : "h100";
    w->n_policies = below(3);
    for (unsigned i = 0; i < w->n_policies; i++)
        w->policies[i] = (enum fraction_policy)below(FRACTION_TOPOLOGY);
}

/* --- The oracle --- */

static bool takes(const struct trial *t, const struct fraction_card *c,
                  const struct fraction_ask *a)
{
    const struct fraction_wish *w = &t->pod.wish;
    unsigned memory = a->memory_mib ? a->memory_mib : c->total.memory_mib * a->memory_percent / 100;
    for (unsigned i = 0; i < w->n_policies; i++)
        if (w->policies[i] == FRACTION_MUTEX && c->used.shares > 0)
            return false;
    if (a->percent == 100 && c->total.percent == 100 && c->used.shares > 0)
        return false;
    if (a->percent == 0 && c->used.percent >= c->total.percent)
        return false;
    return !c->ill && !c->cordoned && (!w->use_models || strcmp(c->model, "H100") == 0) &&
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

static bool try_all(const struct trial *t, const struct fraction_card *now, unsigned i,
                    uint8_t cards[ASKS][CARDS]);

/* The rest of a set: its cards so far are cards[i][0..n). Positions are in the order of the policy. */
static bool try_sets(const struct trial *t, const struct fraction_card *now, const uint8_t *order,
                     unsigned from, unsigned n, unsigned i, uint8_t cards[ASKS][CARDS])
{
    const struct fraction_ask *a = &t->asks[i];
    if (n == a->count) {
        struct fraction_card next[CARDS];
        memcpy(next, now, sizeof(next));
        for (unsigned k = 0; k < n && a->phase != FRACTION_INIT; k++)
            put(&next[cards[i][k]], a);
        return try_all(t, next, i + 1, cards);
    }
    for (unsigned at = from; at < t->node.n; at++) {
        int numa = now[order[at]].numa;
        if (!takes(t, &now[order[at]], a) ||
            (t->pod.wish.one_numa && n && (numa < 0 || numa != now[cards[i][0]].numa)))
            continue;
        cards[i][n] = order[at];
        if (try_sets(t, now, order, at + 1, n + 1, i, cards))
            return true;
    }
    return false;
}

static bool try_all(const struct trial *t, const struct fraction_card *now, unsigned i,
                    uint8_t cards[ASKS][CARDS])
{
    uint8_t order[FRACTION_MAX_CARDS];
    if (i == t->pod.n)
        return true;
    fraction_order(now, t->node.n, &t->pod.wish, order);
    return try_sets(t, now, order, 0, 0, i, cards);
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
