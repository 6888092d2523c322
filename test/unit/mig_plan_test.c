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

/* What stands after the plan, instance by instance, never two on one memory slice. */
static uint32_t carry_out(const struct mig_oracle *o, const struct mig_state *now,
                          const struct mig_plan *plan)
{
    uint32_t memory_slices = 0, spots = 0;
    cr_assert_eq(plan->keep & plan->destroy, 0);
    cr_assert_eq(plan->keep | plan->destroy, (1U << now->n) - 1);
    for (unsigned i = 0; i < now->n; i++) {
        if (!(plan->keep >> i & 1))
            continue;
        memory_slices |= ((1U << now->items[i].size) - 1) << now->items[i].start;
        spots |= 1U << spot_of(o, now->items[i].profile, now->items[i].start);
    }
    for (unsigned i = 0; i < plan->n_create; i++) {
        const struct mig_new *it = &plan->create[i];
        const struct mig_profile *p = &o->table->profiles[it->profile];
        uint32_t mine = ((1U << p->size) - 1) << it->start;
        cr_assert_eq(memory_slices & mine, 0, "overlaps");
        cr_assert(i == 0 || p->size <= o->table->profiles[it[-1].profile].size, "largest first");
        cr_assert(it->n_cis == 1 && it->cis[0] == p->slices, "one compute instance fills it");
        memory_slices |= mine;
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
    cr_assert_leq(plan.steps, MIG_WORST_STEPS);
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

/* How many of the wanted partitions a layout has, and the memory slices of those. */
static struct least shared(const struct mig_table *t, uint64_t wanted, uint64_t layout)
{
    struct least both = {0, 0};
    for (unsigned p = 0; p < t->n_profiles; p++) {
        unsigned a = (unsigned)(wanted >> (4 * p) & 15), b = (unsigned)(layout >> (4 * p) & 15);
        unsigned n = a < b ? a : b;
        both.lost += n;
        both.destroyed += n * t->profiles[p].size;
    }
    return both;
}

static void check_nearest(const struct mig_oracle *o, uint64_t counts)
{
    struct mig_wants wants;
    struct mig_plan plan;
    size_t n;
    mig_oracle_wants(o->table, counts, &wants);
    mig_plan(o->table, &(struct mig_state){.n = 0}, &wants, &plan);
    if (plan.verdict != MIG_PLAN_INFEASIBLE)
        return;
    uint64_t nearest = 0;
    for (unsigned i = 0; i < plan.nearest.n; i++)
        nearest += (uint64_t)plan.nearest.items[i].count << (4 * plan.nearest.items[i].profile);
    (void)mig_oracle_find(o, nearest, &n);
    cr_assert_gt(n, 0, "the nearest layout can stand");
    struct least most = {0, 0};
    for (size_t i = 0; i < o->n_sets; i++) {
        struct least has = shared(o->table, counts, o->sets[i].counts);
        if (has.lost > most.lost || (has.lost == most.lost && has.destroyed > most.destroyed))
            most = has;
    }
    struct least has = shared(o->table, counts, nearest);
    cr_assert_eq(has.lost, most.lost, "keeps as many as can be kept");
    cr_assert_eq(has.destroyed, most.destroyed, "and of those the largest");
    cr_assert_neq(plan.reason[0], '\0');
}

Test(mig_plan, nearest_layout_keeps_as_many_as_any_layout_could)
{
    struct rng rng;
    rng_init(&rng, 3);
    for (const struct mig_model *m = mig_models; m->name; m++) {
        auto_oracle struct mig_oracle o;
        mig_oracle_init(&o, &m->table);
        uint64_t counts = 0, step = 0;
        do {
            if (step++ < 200 || rng_below(&rng, 300) == 0)
                check_nearest(&o, counts);
        } while (mig_oracle_next(&m->table, &counts));
    }
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

/* --- particular cases --- */

#define H100 mig_model("H100-80")

static struct mig_wants wants_of(const struct mig_table *t, const char *name, unsigned count)
{
    struct mig_request r = {name, count};
    struct mig_wants w;
    cr_assert_eq(mig_resolve(t, &r, 1, &w, NULL), 0);
    return w;
}

static struct mig_instance standing(const struct mig_table *t, const char *name, unsigned start)
{
    unsigned p = mig_profile_index(t, name);
    return (struct mig_instance){
        .profile = p,
        .start = start,
        .size = t->profiles[p].size,
        .n_cis = 1,
        .cis = {{.slices = t->profiles[p].slices}},
    };
}

static unsigned start_of_single(const char *name)
{
    struct mig_wants w = wants_of(H100, name, 1);
    struct mig_plan plan;
    mig_plan(H100, &(struct mig_state){.n = 0}, &w, &plan);
    cr_assert_eq(plan.n_create, 1);
    return plan.create[0].start;
}

Test(mig_plan, a_small_instance_goes_where_large_ones_stay_possible)
{
    cr_assert_eq(start_of_single("1g.10gb"), 6, "4g at 0 and 2g anywhere stay possible");
    cr_assert_eq(start_of_single("1g.20gb"), 6);
    cr_assert_eq(start_of_single("3g.40gb"), 4, "4g at 0 stays possible");
}

Test(mig_plan, an_instance_the_table_does_not_know_goes)
{
    struct mig_state now = {.n = 1,
                            .items = {
                                {.profile = MIG_NO_PROFILE, .start = 4, .size = 4, .n_cis = 1}}};
    struct mig_wants w = wants_of(H100, "3g.40gb", 2);
    struct mig_plan plan;
    mig_plan(H100, &now, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.destroy, 1);
    cr_assert_eq(plan.n_create, 2);
    now.items[0].in_use = true;
    mig_plan(H100, &now, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_DRAIN);
    cr_assert_eq(plan.blocking, 1);
}

Test(mig_plan, one_standing_where_the_grid_has_no_such_slots_can_be_planned_away)
{
    struct mig_state now = {.n = 2,
                            .items = {{.profile = MIG_NO_PROFILE, .start = 999, .size = 999},
                                      {.profile = MIG_NO_PROFILE, .start = 0, .size = 999}}};
    struct mig_plan plan;
    mig_plan(H100, &now, &(struct mig_wants){.n = 0}, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.destroy, 3);
}

Test(mig_plan, of_two_that_claim_the_same_slots_only_one_stays)
{
    struct mig_state now = {.n = 2,
                            .items = {standing(H100, "3g.40gb", 0), standing(H100, "3g.40gb", 0)}};
    struct mig_wants w = wants_of(H100, "3g.40gb", 2);
    struct mig_plan plan;
    mig_plan(H100, &now, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.keep, 1);
    cr_assert_eq(plan.n_create, 1);
    cr_assert_eq(plan.create[0].start, 4);
}

Test(mig_plan, infeasible_wants_touch_nothing)
{
    struct mig_state now = {.n = 1, .items = {standing(H100, "1g.10gb", 0)}};
    struct mig_wants w = wants_of(H100, "3g.40gb", 3);
    struct mig_plan plan;
    mig_plan(H100, &now, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    cr_assert_eq(plan.keep, 1);
    cr_assert_eq(plan.destroy | plan.blocking, 0);
    cr_assert_eq(plan.n_create + plan.n_recut, 0);
}

Test(mig_plan, wants_that_name_no_profile_of_the_table_are_infeasible)
{
    struct mig_wants w = {.n = 2,
                          .items = {{.profile = 0, .count = 1}, {.profile = 99, .count = 1}}};
    struct mig_plan plan;
    cr_assert_not(mig_feasible(H100, &w));
    mig_plan(H100, &(struct mig_state){.n = 0}, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    cr_assert_str_eq(plan.reason, "the card offers no such profile");
    cr_assert_eq(plan.nearest.n, 1);
    w.items[1] = (struct mig_want){.profile = mig_profile_index(H100, "4g.40gb"), 3, 1};
    mig_plan(H100, &(struct mig_state){.n = 0}, &w, &plan);
    cr_assert_str_eq(plan.reason, "4g.40gb offers no compute instance of 3 slices");
    w.items[1].count = 0;
    mig_plan(H100, &(struct mig_state){.n = 0}, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE, "what is not wanted at all does no harm");
}

Test(mig_plan, matches_looks_at_partitions_and_not_at_places)
{
    struct mig_state now = {.n = 2,
                            .items = {standing(H100, "1g.10gb", 3), standing(H100, "3g.40gb", 4)}};
    struct mig_wants w = {.n = 2,
                          .items = {{.profile = mig_profile_index(H100, "3g.40gb"), .count = 1},
                                    {.profile = mig_profile_index(H100, "1g.10gb"), .count = 1}}};
    cr_assert(mig_matches(H100, &now, &w));
    w.items[0].ci_slices = 3;
    cr_assert(mig_matches(H100, &now, &w), "3c.3g.40gb is 3g.40gb");
    w.items[1].count = 2;
    cr_assert_not(mig_matches(H100, &now, &w));
    w.items[1].profile = 99;
    cr_assert_not(mig_matches(H100, &now, &w));
}

Test(mig_plan, a_state_that_no_wants_can_say_matches_none)
{
    struct mig_state now = {.n = 1, .items = {standing(H100, "4g.40gb", 0)}};
    struct mig_wants w = wants_of(H100, "4g.40gb", 1);
    cr_assert(mig_matches(H100, &now, &w));
    now.items[0].cis[0].slices = 3; /* not a size that 4g offers */
    cr_assert_not(mig_matches(H100, &now, &w));
    now.items[0].n_cis = 0;
    cr_assert_not(mig_matches(H100, &now, &w));
    now.items[0] = (struct mig_instance){.profile = MIG_NO_PROFILE, .n_cis = 1};
    cr_assert_not(mig_matches(H100, &now, &w));
}

Test(mig_plan, a_table_that_contradicts_itself_about_engines_is_not_held_to_it)
{
    struct mig_wants w = wants_of(mig_model("A100-80"), "1g.10gb", 7);
    cr_assert(mig_feasible(mig_model("A100-80"), &w), "7 decoders, and the card says it has 5");
}

Test(mig_plan, a_table_without_a_profile_of_the_whole_card_has_no_engine_limit)
{
    struct mig_table t = {.memory_slices = 8, .slices = 7, .n_profiles = 1};
    t.profiles[0] = (struct mig_profile){.name = "1g.10gb",
                                         .slices = 1,
                                         .size = 1,
                                         .max_count = 7,
                                         .engines = {.decoder = 9},
                                         .n_starts = 2,
                                         .starts = {0, 1}};
    struct mig_wants w = {.n = 1, .items = {{.profile = 0, .count = 2}}};
    cr_assert(mig_feasible(&t, &w));
    w.items[0].count = 3;
    struct mig_plan plan;
    mig_plan(&t, &(struct mig_state){.n = 0}, &w, &plan);
    cr_assert_str_eq(plan.reason,
                     "1g.10gb x3: their possible placements overlap in every arrangement");
}
