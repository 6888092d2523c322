/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/rng.h"

#include "mig_oracle_support.h"
#include "mig_tables_support.h"
#include "partition/mig.h"

AUTO_DEFINE(oracle, struct mig_oracle, mig_oracle_done)
#define auto_oracle AUTO(oracle)

static unsigned bits(uint32_t set)
{
    return (unsigned)__builtin_popcount(set);
}

/* Index of a spot in the oracle's list. */
static unsigned spot_of(const struct mig_oracle *o, unsigned profile, unsigned start)
{
    unsigned i = 0;
    while (i < o->n_spots && (o->spots[i].profile != profile || o->spots[i].start != start))
        i++;
    cr_assert_lt(i, o->n_spots, "no such placement: profile %u at %u", profile, start);
    return i;
}

/* What stands after the plan, instance by instance, never two on one slot. */
static uint32_t carry_out(const struct mig_oracle *o, const struct mig_state *now,
                          const struct mig_plan *plan)
{
    uint32_t slots = 0, spots = 0;
    cr_assert_eq(plan->keep & plan->destroy, 0);
    cr_assert_eq(plan->keep | plan->destroy, (1U << now->n) - 1);
    for (unsigned i = 0; i < now->n; i++) {
        if (!(plan->keep >> i & 1))
            continue;
        slots |= ((1U << now->items[i].size) - 1) << now->items[i].start;
        spots |= 1U << spot_of(o, now->items[i].profile, now->items[i].start);
    }
    for (unsigned i = 0; i < plan->n_create; i++) {
        const struct mig_new *it = &plan->create[i];
        const struct mig_profile *p = &o->table->profiles[it->profile];
        uint32_t mine = ((1U << p->size) - 1) << it->start;
        cr_assert_eq(slots & mine, 0, "overlaps");
        cr_assert(i == 0 || p->size <= o->table->profiles[it[-1].profile].size, "largest first");
        cr_assert(it->n_cis == 1 && it->cis[0] == p->slices, "one compute instance fills it");
        slots |= mine;
        spots |= 1U << spot_of(o, it->profile, it->start);
    }
    return spots;
}

/* The least any solution costs, by looking at all of them. */
struct least {
    unsigned lost, destroyed;
};

static struct least least_cost(const struct mig_oracle_set *sets, size_t n, uint32_t standing,
                               uint32_t in_use)
{
    struct least best = {UINT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < n; i++) {
        unsigned lost = bits(in_use & ~sets[i].spots), destroyed = bits(standing & ~sets[i].spots);
        if (lost < best.lost || (lost == best.lost && destroyed < best.destroyed))
            best = (struct least){lost, destroyed};
    }
    return best;
}

static bool is_among(const struct mig_oracle_set *sets, size_t n, uint32_t spots)
{
    for (size_t i = 0; i < n; i++) {
        if (sets[i].spots == spots)
            return true;
    }
    return false;
}

/* Plans from one state and compares with all solutions that there are. */
static void check_plan(const struct mig_oracle *o, uint64_t counts, uint32_t standing,
                       uint32_t in_use)
{
    struct mig_wants wants;
    struct mig_state now;
    struct mig_plan plan;
    size_t n;
    const struct mig_oracle_set *sets = mig_oracle_find(o, counts, &n);
    mig_oracle_wants(o->table, counts, &wants);
    mig_oracle_state(o, standing, in_use, &now);
    mig_plan(o->table, &now, &wants, &plan);
    if (n == 0) {
        cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
        return;
    }
    struct least least = least_cost(sets, n, standing, in_use);
    uint32_t after = carry_out(o, &now, &plan);
    cr_assert(is_among(sets, n, after), "ends in a legal layout of exactly the wants");
    cr_assert_eq(bits(plan.destroy), least.destroyed);
    cr_assert_eq(bits(plan.blocking), least.lost);
    cr_assert_eq(bits(in_use & ~after), least.lost);
    cr_assert_eq(plan.n_recut, 0);
    enum mig_verdict expected = least.lost          ? MIG_PLAN_DRAIN
                                : after == standing ? MIG_PLAN_NOTHING
                                                    : MIG_PLAN_CHANGE;
    cr_assert_eq(plan.verdict, expected);
}

Test(mig_plan, feasible_exactly_when_some_set_of_placements_is)
{
    for (const struct mig_model *m = mig_models; m->name; m++) {
        auto_oracle struct mig_oracle o;
        mig_oracle_init(&o, &m->table);
        uint64_t counts = 0;
        do {
            struct mig_wants wants;
            size_t n;
            mig_oracle_wants(&m->table, counts, &wants);
            (void)mig_oracle_find(&o, counts, &n);
            cr_assert_eq(mig_feasible(&m->table, &wants), n > 0, "%s %llx", m->name,
                         (unsigned long long)counts);
        } while (mig_oracle_next(&m->table, &counts));
    }
}

Test(mig_plan, from_every_state_to_every_layout_costs_the_least)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (const struct mig_model *m = mig_models; m->name; m++) {
        auto_oracle struct mig_oracle o;
        mig_oracle_init(&o, &m->table);
        for (size_t i = 0; i < o.n_sets; i++) {
            if (i > 0 && o.sets[i].counts == o.sets[i - 1].counts)
                continue;
            check_plan(&o, o.sets[i].counts, 0, 0);
            for (unsigned round = 0; round < 20; round++) {
                uint32_t standing = o.sets[rng_below(&rng, o.n_sets)].spots;
                uint32_t in_use = standing & (uint32_t)rng_next(&rng);
                check_plan(&o, o.sets[i].counts, standing, in_use);
            }
        }
    }
}
