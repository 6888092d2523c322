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

/*
 * Plans in which compute instances share GPU instances, against a search that goes through every
 * legal set of placements and every way to put the wanted partitions into it.
 */

#define MAX_SLICES 8

/* Compute instances of one GPU instance by slices. */
struct cuts {
    unsigned of[MAX_SLICES];
};

/* nvidia.md 3.1: what may stand in a GPU instance of g slices, [g][c]. */
static const unsigned offered[MAX_SLICES][MAX_SLICES] = {
    [1] = {0, 1},
    [2] = {0, 2, 1},
    [3] = {0, 3, 1, 1},
    [4] = {0, 4, 2, 0, 1},
    [7] = {0, 7, 3, 2, 1, 0, 0, 1},
};

struct cost {
    unsigned lost, total, destroyed, unretained;
};

static bool is_less(const struct cost *a, const struct cost *b)
{
    return memcmp(&(unsigned[]){__builtin_bswap32(a->lost), __builtin_bswap32(a->total),
                                __builtin_bswap32(a->destroyed), __builtin_bswap32(a->unretained)},
                  &(unsigned[]){__builtin_bswap32(b->lost), __builtin_bswap32(b->total),
                                __builtin_bswap32(b->destroyed), __builtin_bswap32(b->unretained)},
                  sizeof(struct cost)) < 0;
}

/* One wanted partition. */
struct item {
    unsigned profile, slices;
};

struct trial {
    const struct mig_oracle *o;
    const struct mig_state *now;
    uint32_t final; /* spots of the set at hand */
    unsigned n_items;
    struct item items[MIG_MAX_WANTS * MAX_SLICES];
    struct cuts in[MIG_ORACLE_SPOTS]; /* what each spot of it holds so far */
    struct cost best;
    bool found;
};

static unsigned standing_spot(const struct trial *k, unsigned i)
{
    const struct mig_instance *it = &k->now->items[i];
    unsigned spot = 0;
    while (spot < k->o->n_spots &&
           (k->o->spots[spot].profile != it->profile || k->o->spots[spot].start != it->start))
        spot++;
    return spot;
}

static struct cuts sum(const struct mig_instance *it, bool only_in_use)
{
    struct cuts c = {{0}};
    for (unsigned i = 0; i < it->n_cis; i++)
        c.of[it->cis[i].slices] += !only_in_use || it->cis[i].in_use;
    return c;
}

/* What it costs to get from what stands to what the trial's bins hold. */
static struct cost judge(const struct trial *k)
{
    struct cost c = {.total = (unsigned)__builtin_popcount(k->final), .unretained = 1000};
    for (unsigned i = 0; i < k->now->n; i++) {
        const struct mig_instance *it = &k->now->items[i];
        unsigned spot = standing_spot(k, i);
        bool stays = spot < k->o->n_spots && (k->final >> spot & 1);
        struct cuts have = sum(it, false), busy = sum(it, true);
        bool loses = !stays && it->in_use;
        for (unsigned s = 1; s < MAX_SLICES && stays; s++) {
            unsigned holds = k->in[spot].of[s];
            loses |= busy.of[s] > holds;
            c.unretained -= have.of[s] < holds ? have.of[s] : holds;
        }
        c.lost += loses;
        c.destroyed += !stays;
    }
    return c;
}

static bool has_empty_bin(const struct trial *k)
{
    static const struct cuts empty;
    for (unsigned spot = 0; spot < k->o->n_spots; spot++) {
        if ((k->final >> spot & 1) && memcmp(&k->in[spot], &empty, sizeof(empty)) == 0)
            return true;
    }
    return false;
}

static bool fits(const struct trial *k, unsigned spot, const struct item *it)
{
    unsigned g = k->o->table->profiles[it->profile].slices, used = it->slices;
    for (unsigned s = 1; s < MAX_SLICES; s++)
        used += s * k->in[spot].of[s];
    return used <= g && k->in[spot].of[it->slices] < offered[g][it->slices];
}

/* Every way to put the items from here on into the set's instances. */
static void put(struct trial *k, unsigned item)
{
    if (item == k->n_items) {
        if (has_empty_bin(k))
            return;
        struct cost c = judge(k);
        if (!k->found || is_less(&c, &k->best))
            k->best = c;
        k->found = true;
        return;
    }
    const struct item *it = &k->items[item];
    for (unsigned spot = 0; spot < k->o->n_spots; spot++) {
        if (!(k->final >> spot & 1) || k->o->spots[spot].profile != it->profile ||
            !fits(k, spot, it))
            continue;
        k->in[spot].of[it->slices]++;
        put(k, item + 1);
        k->in[spot].of[it->slices]--;
    }
}

static uint32_t profiles_of_set(const struct mig_oracle *o, uint32_t spots)
{
    uint32_t set = 0;
    for (unsigned i = 0; i < o->n_spots; i++)
        set |= (spots >> i & 1) << o->spots[i].profile;
    return set;
}

static void try_all(struct trial *k, const struct mig_wants *w)
{
    uint32_t wanted = 0;
    for (unsigned i = 0; i < w->n; i++) {
        unsigned whole = k->o->table->profiles[w->items[i].profile].slices;
        for (unsigned n = 0; n < w->items[i].count; n++)
            k->items[k->n_items++] =
                (struct item){w->items[i].profile, w->items[i].ci_slices ?: whole};
        wanted |= w->items[i].count ? 1U << w->items[i].profile : 0;
    }
    for (size_t i = 0; i < k->o->n_sets; i++) {
        k->final = k->o->sets[i].spots;
        if (profiles_of_set(k->o, k->final) == wanted)
            put(k, 0);
    }
}

/* The same figures of a plan, checking on the way that it does what it says. */
static struct cost cost_of(const struct mig_oracle *o, const struct mig_state *now,
                           const struct mig_wants *w, const struct mig_plan *plan)
{
    struct mig_state after = {.n = 0};
    struct cost c = {.lost = (unsigned)__builtin_popcount(plan->blocking),
                     .total = (unsigned)__builtin_popcount(plan->keep) + plan->n_create,
                     .destroyed = (unsigned)__builtin_popcount(plan->destroy),
                     .unretained = 1000};
    for (unsigned i = 0; i < now->n; i++) {
        if (!(plan->keep >> i & 1))
            continue;
        const struct mig_recut *r = NULL;
        for (unsigned n = 0; n < plan->n_recut; n++)
            r = plan->recut[n].instance == i ? &plan->recut[n] : r;
        struct mig_instance *it = &after.items[after.n++];
        *it = now->items[i];
        it->n_cis = 0;
        for (unsigned n = 0; n < now->items[i].n_cis; n++) {
            bool goes = r && (r->destroy >> n & 1);
            cr_assert(!goes || !now->items[i].cis[n].in_use || (plan->blocking >> i & 1),
                      "what is in use and goes is blocking");
            if (!goes)
                it->cis[it->n_cis++] = now->items[i].cis[n];
        }
        c.unretained -= it->n_cis;
        for (unsigned n = 0; r && n < r->n_create; n++)
            it->cis[it->n_cis++] = (struct mig_ci){.slices = r->create[n]};
    }
    for (unsigned i = 0; i < plan->n_create; i++) {
        const struct mig_new *fresh = &plan->create[i];
        struct mig_instance *it = &after.items[after.n++];
        *it = (struct mig_instance){.profile = fresh->profile, .start = fresh->start};
        for (unsigned n = 0; n < fresh->n_cis; n++) {
            cr_assert(n == 0 || fresh->cis[n] <= fresh->cis[n - 1], "largest first");
            it->cis[it->n_cis++] = (struct mig_ci){.slices = fresh->cis[n]};
        }
    }
    cr_assert(mig_matches(o->table, &after, w), "ends as wanted");
    return c;
}

/* Fills an instance with random compute instances, a third of them in use. */
static void cut_randomly(struct rng *rng, const struct mig_table *t, struct mig_instance *it)
{
    unsigned g = t->profiles[it->profile].slices, used = 0;
    it->n_cis = 0;
    it->in_use = false;
    for (unsigned tries = (unsigned)rng_below(rng, 5); tries > 0; tries--) {
        unsigned c = 1 + (unsigned)rng_below(rng, g);
        if (offered[g][c] == 0 || used + c > g)
            continue;
        used += c;
        bool in_use = rng_below(rng, 3) == 0;
        it->in_use |= in_use;
        it->cis[it->n_cis++] = (struct mig_ci){.id = it->n_cis, .slices = c, .in_use = in_use};
    }
}

static void random_state(struct rng *rng, const struct mig_oracle *o, struct mig_state *ret)
{
    mig_oracle_state(o, o->sets[rng_below(rng, o->n_sets)].spots, /* in_use= */ 0, ret);
    for (unsigned i = 0; i < ret->n; i++)
        cut_randomly(rng, o->table, &ret->items[i]);
}

/* Wants that say what the state shows, with nothing of empty instances. */
static void want_state(const struct mig_state *s, struct mig_wants *ret)
{
    ret->n = 0;
    for (unsigned i = 0; i < s->n; i++) {
        for (unsigned c = 0; c < s->items[i].n_cis; c++)
            ret->items[ret->n++] = (struct mig_want){.profile = s->items[i].profile,
                                                     .ci_slices = s->items[i].cis[c].slices,
                                                     .count = 1};
    }
}

/* Half of the profiles are those of the present state, so that plans keep and re-cut. */
static void random_wants(struct rng *rng, const struct mig_oracle *o, const struct mig_state *now,
                         struct mig_wants *ret)
{
    struct mig_state target = *now;
    if (rng_below(rng, 2))
        random_state(rng, o, &target);
    for (unsigned i = 0; i < target.n; i++)
        cut_randomly(rng, o->table, &target.items[i]);
    want_state(&target, ret);
}

Test(mig_recut, from_random_cuts_to_random_cuts_costs_the_least, .timeout = 300)
{
    static const char *const models[] = {"H100-80", "A30"};
    struct rng rng;
    rng_init(&rng, 5);
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        auto_oracle struct mig_oracle o;
        mig_oracle_init(&o, mig_model(models[m]));
        for (unsigned round = 0; round < 400; round++) {
            struct mig_state now;
            struct mig_wants w;
            struct mig_plan plan;
            random_state(&rng, &o, &now);
            random_wants(&rng, &o, &now, &w);
            struct trial k = {.o = &o, .now = &now};
            try_all(&k, &w);
            mig_plan(o.table, &now, &w, &plan);
            cr_assert_eq(plan.verdict != MIG_PLAN_INFEASIBLE, k.found);
            if (!k.found)
                continue;
            if (mig_matches(o.table, &now, &w)) {
                cr_assert_eq(plan.verdict, MIG_PLAN_NOTHING);
                continue;
            }
            struct cost c = cost_of(&o, &now, &w, &plan);
            cr_assert(memcmp(&c, &k.best, sizeof(c)) == 0,
                      "%s round %u: lost %u/%u total %u/%u destroyed %u/%u unretained %u/%u",
                      models[m], round, c.lost, k.best.lost, c.total, k.best.total, c.destroyed,
                      k.best.destroyed, c.unretained, k.best.unretained);
        }
    }
}

/* --- particular cases, on an H100 --- */

static struct mig_instance gi(const char *name, unsigned start, const unsigned *cis)
{
    const struct mig_table *t = mig_model("H100-80");
    unsigned p = mig_profile_index(t, name);
    struct mig_instance it = {.profile = p, .start = start, .size = t->profiles[p].size};
    for (; *cis; cis++)
        it.cis[it.n_cis++] = (struct mig_ci){.id = it.n_cis, .slices = *cis};
    return it;
}

#define CIS(...) ((const unsigned[]){__VA_ARGS__, 0})

static struct mig_plan plan_for(const struct mig_state *now, const char *name, unsigned count)
{
    const struct mig_table *t = mig_model("H100-80");
    struct mig_request r = {name, count};
    struct mig_wants w;
    struct mig_plan plan;
    cr_assert_eq(mig_resolve(t, &r, 1, &w, NULL), 0);
    mig_plan(t, now, &w, &plan);
    return plan;
}

Test(mig_recut, three_small_compute_instances_share_one_gpu_instance)
{
    struct mig_plan plan = plan_for(&(struct mig_state){.n = 0}, "1c.3g.40gb", 3);
    cr_assert_eq(plan.n_create, 1);
    cr_assert_eq(plan.create[0].n_cis, 3);
    cr_assert_eq(plan.create[0].cis[2], 1);
    plan = plan_for(&(struct mig_state){.n = 0}, "1c.3g.40gb", 4);
    cr_assert_eq(plan.n_create, 2);
    plan = plan_for(&(struct mig_state){.n = 0}, "3g.40gb", 2);
    cr_assert_eq(plan.n_create, 2, "a plain one takes a whole instance");
}

Test(mig_recut, no_more_instances_stay_than_the_cut_takes_on_an_empty_card)
{
    const struct mig_table *t = mig_model("H100-80");
    const unsigned whole[] = {3, 0};
    const unsigned single[] = {1, 0};
    const struct mig_request thirds = {"1c.3g.40gb", 2};
    struct mig_wants w;
    struct mig_plan plan;
    cr_assert_eq(mig_resolve(t, &thirds, 1, &w, NULL), 0);
    struct mig_state now = {.n = 2, .items = {gi("3g.40gb", 0, whole), gi("3g.40gb", 4, whole)}};
    mig_plan(t, &now, &w, &plan);
    cr_expect_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_expect_eq(__builtin_popcount(plan.destroy), 1);
    cr_expect_eq(plan.n_recut, 1);

    now = (struct mig_state){.n = 2, .items = {gi("3g.40gb", 0, single), gi("3g.40gb", 4, single)}};
    mig_plan(t, &now, &w, &plan);
    cr_expect_eq(plan.verdict, MIG_PLAN_NOTHING, "what is asked for is there");
}

Test(mig_recut, an_instance_is_cut_anew_rather_than_destroyed)
{
    struct mig_state now = {.n = 1, .items = {gi("3g.40gb", 4, CIS(1, 1))}};
    struct mig_plan plan = plan_for(&now, "3g.40gb", 1);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.keep, 1);
    cr_assert_eq(plan.n_recut, 1);
    cr_assert_eq(plan.recut[0].destroy, 3);
    cr_assert_eq(plan.recut[0].n_create, 1);
    cr_assert_eq(plan.recut[0].create[0], 3);
}

Test(mig_recut, an_instance_without_compute_instances_gets_them)
{
    struct mig_state now = {.n = 1, .items = {gi("3g.40gb", 4, CIS(0))}};
    struct mig_plan plan = plan_for(&now, "3g.40gb", 1);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.recut[0].destroy, 0);
    cr_assert_eq(plan.recut[0].n_create, 1);
}

Test(mig_recut, what_is_in_use_inside_an_instance_stays)
{
    struct mig_state now = {.n = 1, .items = {gi("3g.40gb", 4, CIS(1, 1, 1))}};
    now.items[0].cis[1].in_use = true;
    struct mig_plan plan = plan_for(&now, "1c.3g.40gb", 1);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.recut[0].destroy, 5);
    cr_assert_eq(plan.blocking, 0);
}

Test(mig_recut, a_cut_that_needs_what_is_in_use_waits_for_it)
{
    struct mig_state now = {.n = 1, .items = {gi("3g.40gb", 4, CIS(1))}};
    now.items[0].cis[0].in_use = true;
    struct mig_plan plan = plan_for(&now, "3g.40gb", 2);
    cr_assert_eq(plan.verdict, MIG_PLAN_DRAIN);
    cr_assert_eq(plan.blocking, 1);
    cr_assert_eq(plan.keep, 1, "only the compute instance has to go");
    cr_assert_eq(plan.recut[0].destroy, 1);
    plan = plan_for(&now, "2c.3g.40gb", 1);
    cr_assert_eq(plan.verdict, MIG_PLAN_DRAIN);
}

Test(mig_recut, in_use_without_saying_where_means_all_of_it)
{
    struct mig_state now = {.n = 1, .items = {gi("3g.40gb", 4, CIS(1, 1))}};
    now.items[0].in_use = true;
    cr_assert_eq(plan_for(&now, "1c.3g.40gb", 1).verdict, MIG_PLAN_DRAIN);
    cr_assert_eq(plan_for(&now, "1c.3g.40gb", 2).verdict, MIG_PLAN_NOTHING);
    cr_assert_eq(plan_for(&now, "1c.3g.40gb", 3).verdict, MIG_PLAN_CHANGE);
}

Test(mig_recut, a_compute_instance_of_a_size_not_offered_goes)
{
    struct mig_state now = {.n = 1, .items = {gi("4g.40gb", 0, CIS(3))}};
    struct mig_plan plan = plan_for(&now, "4g.40gb", 1);
    cr_assert_eq(plan.verdict, MIG_PLAN_CHANGE);
    cr_assert_eq(plan.recut[0].destroy, 1);
    now.items[0].cis[0].in_use = true;
    plan = plan_for(&now, "4g.40gb", 1);
    cr_assert_eq(plan.verdict, MIG_PLAN_DRAIN);
    cr_assert_eq(plan.keep, 1);
}

Test(mig_recut, two_shares_in_use_that_leave_no_room_apart_must_move_together)
{
    const struct mig_table *t = mig_model("H100-80");
    struct mig_state now = {.n = 2, .items = {gi("3g.40gb", 0, CIS(1)), gi("3g.40gb", 4, CIS(1))}};
    now.items[0].cis[0].in_use = now.items[1].cis[0].in_use = true;
    struct mig_wants w = {.n = 2,
                          .items = {{mig_profile_index(t, "3g.40gb"), 1, 2},
                                    {mig_profile_index(t, "4g.40gb"), 0, 1}}};
    struct mig_plan plan;
    mig_plan(t, &now, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_DRAIN);
    cr_assert_eq(plan.blocking, 1, "4g needs memory slice 0");
    cr_assert_eq(plan.recut[0].n_create, 1);
}

Test(mig_recut, whole_and_shared_instances_of_one_profile_are_told_apart_when_too_many)
{
    const struct mig_table *t = mig_model("H100-80");
    unsigned p = mig_profile_index(t, "3g.40gb");
    struct mig_wants w = {.n = 3, .items = {{p, 0, 1}, {p, 1, 4}, {p, 2, 0}}};
    struct mig_plan plan;
    mig_plan(t, &(struct mig_state){.n = 0}, &w, &plan);
    cr_assert_str_eq(plan.reason, "3g.40gb x1, 1c.3g.40gb x4 needs 12 of 8 memory slices");
    auto_free char *nearest = mig_wants_text(t, &plan.nearest);
    cr_assert_str_eq(nearest, "1c.3g.40gb x3, 3g.40gb x1");
}
