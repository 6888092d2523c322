/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "kubectl/node_fix.h"
#include "mig_oracle_support.h"
#include "mig_tables_support.h"
#include "partition/model.h"

/*
 * The smallest change of a node beside one that looks through every layout of every card (the oracle
 * writes all sets of placements of a model down): for random small nodes both cost the same, or both
 * find none.
 */

#define RESOURCES "nvidia.com/mig-"
enum { CARDS = 3, MOST = 6, USUAL_CASES = 400 };

/* A card of the trial, by the oracle's spots. */
struct card {
    bool cut; /* false: it is whole */
    bool held;
    uint32_t spots, in_use;
};

struct trial {
    const struct mig_oracle *o;
    struct card cards[CARDS];
    unsigned n_cards, profile, more;
};

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33) % n;
}

static void random_trial(const struct mig_oracle *o, struct trial *t)
{
    *t = (struct trial){.o = o,
                        .n_cards = 1 + below(CARDS),
                        .profile = below(o->table->n_profiles),
                        .more = 1 + below(MOST)};
    for (unsigned i = 0; i < t->n_cards; i++) {
        struct card *c = &t->cards[i];
        c->cut = below(4) > 0;
        c->held = below(3) == 0;
        c->spots = c->cut ? o->sets[below((unsigned)o->n_sets)].spots : 0;
        c->in_use = c->spots & below(1U << 31) & (below(2) ? below(1U << 31) : UINT32_MAX);
    }
}

/* --- The oracle's answer --- */

static unsigned count_of(const struct trial *t, uint32_t spots)
{
    unsigned n = 0;
    for (unsigned i = 0; i < t->o->n_spots; i++)
        n += (spots >> i & 1) && t->o->spots[i].profile == t->profile;
    return n;
}

/* The fewest parts that go for so many more on this card; -1: it cannot give them. */
static int least_of(const struct trial *t, const struct card *c, unsigned more)
{
    int least = -1;
    for (size_t i = 0; i < t->o->n_sets; i++) {
        uint32_t then = t->o->sets[i].spots;
        int goes = __builtin_popcount(c->spots & ~then);
        if ((then & c->in_use) == c->in_use && count_of(t, then) >= count_of(t, c->spots) + more &&
            (least < 0 || goes < least))
            least = goes;
    }
    return !c->cut && c->held ? -1 : least;
}

/* Every way to divide what is left over the cards from this one on. */
static void divide(const struct trial *t, unsigned card, unsigned left, struct fix_cost cost,
                   struct fix_cost *best)
{
    if (left == 0 && fix_cost_is_less(&cost, best))
        *best = cost;
    if (left == 0 || card == t->n_cards)
        return;
    divide(t, card + 1, left, cost, best);
    for (unsigned gives = 1; gives <= left; gives++) {
        int goes = least_of(t, &t->cards[card], gives);
        const struct fix_cost more = {!t->cards[card].cut, (unsigned)goes, 1};
        if (goes >= 0)
            divide(t, card + 1, left - gives, fix_cost_sum(&cost, &more), best);
    }
}

/* --- The same as a Device --- */

static void add_partition(const struct trial *t, unsigned spot, bool in_use,
                          struct device_card *card)
{
    const struct mig_oracle_spot *s = &t->o->spots[spot];
    const struct mig_profile *p = &t->o->table->profiles[s->profile];
    struct device_partition *to = XPUSH(card->partitions, card->n_partitions);
    *to = (struct device_partition){.profile = xstrdup(p->name),
                                    .placement = xasprintf("%u:%u", s->start, p->size),
                                    .has_gi_id = true,
                                    .gi_id = (int64_t)card->n_partitions,
                                    .has_ci_id = true,
                                    .in_use = in_use};
}

static void device_of(const struct trial *t, struct device_status *st)
{
    *st = (struct device_status){0};
    model_from_table("model", t->o->table, XPUSH(st->models, st->n_models));
    for (unsigned i = 0; i < t->n_cards; i++) {
        const struct card *c = &t->cards[i];
        struct device_card *to = XPUSH(st->devices, st->n_devices);
        *to = (struct device_card){.uuid = xasprintf("GPU-%u", i),
                                   .vendor = xstrdup("nvidia"),
                                   .model = xstrdup("model"),
                                   .index = i,
                                   .healthy = true,
                                   .mig_capable = true,
                                   .mode = c->cut ? API_MODE_MIG : API_MODE_NATIVE,
                                   .in_use = !c->cut && c->held};
        for (unsigned k = 0; k < t->o->n_spots; k++)
            if (c->spots >> k & 1)
                add_partition(t, k, c->in_use >> k & 1, to);
    }
}

/* --- Both --- */

static bool is_equal(const struct fix_cost *a, const struct fix_cost *b)
{
    return !fix_cost_is_less(a, b) && !fix_cost_is_less(b, a);
}

/* With something dearer in hand the same is found, and with the best itself nothing that costs less. */
static void compare_bounded(const struct device_status *st, const char *resource, unsigned more,
                            const struct fix_cost *best, uint64_t number)
{
    static const struct fix_cost dearer[] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(dearer); i++) {
        struct node_fix fix = {0};
        struct fix_effort effort = FIX_EFFORT(1000000);
        effort.most = fix_cost_sum(best, &dearer[i]);
        bool found = node_fix_find(st, /* spec= */ NULL, resource, more, &effort, &fix);
        if (i == 0)
            cr_expect_not(found && fix_cost_is_less(&fix.cost, best), "case %llu",
                          (long long)number);
        else
            cr_expect(found && is_equal(&fix.cost, best), "case %llu, bound %zu", (long long)number,
                      i);
        node_fix_done(&fix);
    }
}

static void compare(const struct trial *t, uint64_t number)
{
    static const struct fix_cost never = {UINT16_MAX, 0, 0};
    struct node_fix fix = {0};
    struct fix_cost best = never;
    struct fix_effort effort = FIX_EFFORT(1000000);
    auto_device_status struct device_status st = {0};
    const struct mig_profile *p = &t->o->table->profiles[t->profile];
    struct mig_name name;
    char label[MIG_NAME_BYTES];
    cr_assert_eq(mig_name_parse(p->name, &name, NULL), 0);
    auto_free char *resource = xasprintf(RESOURCES "%s", mig_name_format_label(&name, label));
    device_of(t, &st);
    divide(t, 0, t->more, (struct fix_cost){0}, &best);
    bool found = node_fix_find(&st, /* spec= */ NULL, resource, t->more, &effort, &fix);
    cr_expect_eq(found, best.modes != never.modes, "case %llu: %u more %s", (long long)number,
                 t->more, p->name);
    if (found) {
        cr_expect(is_equal(&fix.cost, &best) && fix.n == best.cards,
                  "case %llu: %u more %s cost %u %u %u, the oracle's %u %u %u", (long long)number,
                  t->more, p->name, fix.cost.modes, fix.cost.goes, fix.cost.cards, best.modes,
                  best.goes, best.cards);
        compare_bounded(&st, resource, t->more, &best, number);
    }
    cr_expect_not(effort.cut);
    node_fix_done(&fix);
}

static void compare_all(const char *model)
{
    int64_t cases = USUAL_CASES;
    struct mig_oracle o;
    struct trial t;
    const char *more = getenv("NODE_FIX_CASES");
    cr_assert(!more || num_parse(more, 1, INT64_MAX, &cases, NULL) == 0);
    mig_oracle_init(&o, mig_model(model));
    for (uint64_t i = 0; i < (uint64_t)cases; i++) {
        seed = i;
        random_trial(&o, &t);
        compare(&t, i);
    }
    mig_oracle_done(&o);
}

Test(node_fix, on_small_cards_it_costs_what_the_best_of_all_layouts_costs)
{
    compare_all("A30");
}

Test(node_fix, on_large_cards_too)
{
    compare_all("H100-80");
}

Test(node_fix, a_search_that_may_ask_no_more_says_that_it_was_cut)
{
    struct mig_oracle o;
    struct node_fix fix;
    struct fix_effort effort = FIX_EFFORT(1);
    auto_device_status struct device_status st = {0};
    mig_oracle_init(&o, mig_model("A30"));
    const struct trial t = {.o = &o, .cards = {{.cut = true}}, .n_cards = 1};
    device_of(&t, &st);
    cr_expect_not(node_fix_find(&st, NULL, RESOURCES "1g.6gb", 2, &effort, &fix));
    cr_expect(effort.cut);
    mig_oracle_done(&o);
}
