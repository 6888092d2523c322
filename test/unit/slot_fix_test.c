/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "kubectl/slot_ask.h"

/*
 * Which cards change for a pod's slices, beside every set of cards in turn: the Device is written down
 * as it would be then, and judged as one that is so. For random nodes and pods the cheapest set that
 * has room costs what was found, or none has.
 */

enum { CARDS = 4, SLOTS = 4, MEMORY_MIB = 8 * SGPU_STEP_MIB, USUAL_CASES = 2000 };

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33) % n;
}

/* What a card is, or would be. */
enum kind { WHOLE, HELD, OF_LAYOUT, OF_PODS, KINDS };

struct card {
    enum kind kind;
    unsigned n; /* slices of 1 step and 20 % */
    bool foreign, in_use;
};

struct trial {
    struct card cards[CARDS];
    unsigned n_cards;
    struct slot_wish wishes[SLOTS];
    struct slot_ask ask;
};

static void random_trial(struct trial *t)
{
    *t = (struct trial){.n_cards = 1 + below(CARDS), .ask = {.n = 1 + below(SLOTS)}};
    t->ask.wishes = t->wishes;
    for (unsigned i = 0; i < t->n_cards; i++)
        t->cards[i] = (struct card){.kind = (enum kind)below(KINDS),
                                    .n = 1 + below(3),
                                    .foreign = below(4) == 0,
                                    .in_use = below(2)};
    for (unsigned i = 0; i < t->ask.n; i++)
        t->wishes[i] = (struct slot_wish){.memory_mib = SGPU_STEP_MIB * (1 + below(8)),
                                          .compute_percent = 10 * (1 + below(10)),
                                          .qos = -1};
}

/* --- The Device --- */

static void add_slice(unsigned i, bool of_pod, const struct card *c, struct device_card *to)
{
    struct device_partition *p = XPUSH(to->partitions, to->n_partitions);
    const char *word = of_pod ? "slot." : c->foreign ? "theirs-" : "small-";
    unsigned number = of_pod ? i + 100 * (unsigned)to->index : i;
    *p = (struct device_partition){.has_slice = true,
                                   .slice = {.id = i,
                                             .alias = xasprintf("%s%u", word, number),
                                             .memory_mib = SGPU_STEP_MIB,
                                             .compute_percent = 20,
                                             .foreign = c->foreign && !of_pod},
                                   .in_use = c->in_use};
}

/* changed: it makes slices for pods now, and has none of a layout. */
static void add_card(const struct card *c, bool changed, struct device_status *st)
{
    int64_t index = (int64_t)st->n_devices;
    bool cut = c->kind == OF_LAYOUT || c->kind == OF_PODS;
    struct device_card *to = XPUSH(st->devices, st->n_devices);
    *to = (struct device_card){.uuid = xasprintf("GPU-%lld", (long long)index),
                               .vendor = xstrdup("metax"),
                               .index = index,
                               .healthy = true,
                               .mode = cut || changed ? API_MODE_SGPU : API_MODE_NATIVE,
                               .in_use = c->kind == HELD,
                               .has_sgpu = true,
                               .sgpu = {.memory_mib = MEMORY_MIB, .qos_policy = API_FIXED_SHARE}};
    for (unsigned i = 0; cut && i < c->n; i++)
        if (c->kind == OF_PODS || !changed || c->foreign)
            add_slice(i, c->kind == OF_PODS, c, to);
}

static void device_of(const struct trial *t, unsigned changed, struct device_status *st)
{
    *st = (struct device_status){0};
    for (unsigned i = 0; i < t->n_cards; i++)
        add_card(&t->cards[i], changed >> i & 1, st);
}

/* --- Every set of cards --- */

/* Slices that others made have no layout: such a card makes slices for pods as it is. */
static bool may_change(const struct card *c)
{
    return c->kind == WHOLE || (c->kind == OF_LAYOUT && !c->foreign && !c->in_use);
}

static bool cost_of(const struct trial *t, unsigned changed, struct fix_cost *ret)
{
    *ret = (struct fix_cost){0};
    for (unsigned i = 0; i < t->n_cards; i++) {
        const struct card *c = &t->cards[i];
        const struct fix_cost one = {c->kind == WHOLE, c->kind == WHOLE ? 0 : c->n, 1};
        if (!(changed >> i & 1))
            continue;
        if (!may_change(c))
            return false;
        *ret = fix_cost_sum(ret, &one);
    }
    return true;
}

static bool best_of(const struct trial *t, struct fix_cost *ret)
{
    bool found = false;
    for (unsigned changed = 1; changed < 1U << t->n_cards; changed++) {
        struct fix_cost cost;
        auto_device_status struct device_status st = {0};
        if (!cost_of(t, changed, &cost) || (found && !fix_cost_is_less(&cost, ret)))
            continue;
        device_of(t, changed, &st);
        auto_free char *misfit = slot_ask_misfit(&t->ask, &st, /* spec= */ NULL);
        if (misfit)
            continue;
        *ret = cost;
        found = true;
    }
    return found;
}

static void compare(const struct trial *t, uint64_t number)
{
    struct fix_cost best = {0};
    struct node_fix fix = {0};
    struct fix_effort effort = FIX_EFFORT(1000000);
    auto_device_status struct device_status st = {0};
    device_of(t, /* changed= */ 0, &st);
    bool there = best_of(t, &best);
    bool found = slot_ask_fix(&t->ask, &st, /* spec= */ NULL, /* more= */ 0, &effort, &fix);
    cr_expect_eq(found, there, "case %llu", (long long)number);
    cr_expect(fix.cost.modes == best.modes && fix.cost.goes == best.goes &&
                  fix.cost.cards == best.cards && fix.n == best.cards,
              "case %llu costs %u %u %u, the cheapest %u %u %u", (long long)number, fix.cost.modes,
              fix.cost.goes, fix.cost.cards, best.modes, best.goes, best.cards);
    cr_expect_not(effort.cut);
    node_fix_done(&fix);
}

Test(slot_fix, it_costs_what_the_cheapest_of_all_sets_of_cards_costs)
{
    int64_t cases = USUAL_CASES;
    const char *more = getenv("SLOT_FIX_CASES");
    cr_assert(!more || num_parse(more, 1, INT64_MAX, &cases, NULL) == 0);
    for (uint64_t i = 0; i < (uint64_t)cases; i++) {
        struct trial t;
        seed = i;
        random_trial(&t);
        compare(&t, i);
    }
}
