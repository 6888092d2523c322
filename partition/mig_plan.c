/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "partition/mig.h"
#include "partition/mig_explain.h"
#include "partition/mig_feasible.h"
#include "partition/mig_nearest.h"
#include "partition/mig_pack.h"
#include "partition/mig_place.h"

/*
 * The plan is found by trying every fate of every existing instance, cut off as soon as it costs
 * more than the best known one. The fates determine the rest: packing decides what each GPU
 * instance holds and how many new ones each profile needs, the limits judge the sum, and placement
 * finds the memory slices. An H100 has at most seven instances: 128 fates, or a few more where an
 * instance in use could also lose one of its compute instances.
 */

static_assert(MIG_MAX_INSTANCES < 32 && MIG_MAX_CIS < 32, "plans are sets of bits");

/* An existing instance in the search. */
struct standing {
    unsigned profile;
    uint32_t memory_slices;
    bool busy;     /* in use, wholly or partly */
    bool busy_odd; /* in use, with a size that the profile does not offer */
    struct mig_cuts have, in_use;
};

enum fate {
    GOES,
    STAYS, /* with all of its compute instances in use */
    YIELDS /* stays, but may lose compute instances in use */
};

/* The cost of a solution, most important first; smaller is better. Fewer GPU instances at the end
 * come before fewer changes, so that the layout does not depend on the start: else two of 3g that
 * are to become 1c.3g twice would both stay, with one compute instance each. */
enum { LOST, TOTAL, DESTROYED, NOT_RETAINED, NOT_FREE, NOT_RUN, N_COSTS };
struct cost {
    unsigned of[N_COSTS];
};

struct solution {
    struct cost cost;
    enum fate fate[MIG_MAX_INSTANCES];
    struct mig_cuts holds[MIG_MAX_INSTANCES]; /* what an existing instance holds at the end */
    struct mig_counts all, fresh; /* GPU instances at the end, and the new ones among them */
    struct mig_cuts fresh_holds[MIG_MAX_INSTANCES]; /* by profile, ascending */
    struct mig_layout layout;                       /* of the new instances */
};

struct search {
    const struct mig_table *t;
    struct mig_effort *effort;
    struct mig_limits limits;
    struct mig_demand demand;
    unsigned n;
    struct standing standing[MIG_MAX_INSTANCES];
    struct solution at;
    unsigned staying[MIG_MAX_PROFILES]; /* existing instances kept so far */
    unsigned n_staying;                 /* all of them */
    bool found;
    struct solution best;
};

static struct standing observe(const struct mig_table *t, const struct mig_instance *it)
{
    assert(it->n_cis <= MIG_MAX_CIS);
    struct standing s = {
        .profile = it->profile < t->n_profiles ? it->profile : MIG_NO_PROFILE,
        .memory_slices =
            mig_memory_slices(it->start, it->size) & mig_memory_slices(0, t->memory_slices),
        .busy = it->in_use,
    };
    bool any_named = false;
    for (unsigned i = 0; i < it->n_cis; i++)
        any_named |= it->cis[i].in_use;
    s.busy |= any_named;
    for (unsigned i = 0; i < it->n_cis && s.profile != MIG_NO_PROFILE; i++) {
        unsigned kind = mig_cut_kind(t->profiles[s.profile].slices, it->cis[i].slices);
        /* In use, but no compute instance is marked: then any of them may be in use. */
        bool in_use = it->cis[i].in_use || (s.busy && !any_named);
        if (kind == MIG_CI_KINDS) {
            s.busy_odd |= in_use;
            continue;
        }
        mig_cuts_add(&s.have, kind, 1);
        mig_cuts_add(&s.in_use, kind, in_use);
    }
    return s;
}

static int compare(const struct cost *a, const struct cost *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (a->of[i] != b->of[i])
            return a->of[i] < b->of[i] ? -1 : 1;
    }
    return 0;
}

static bool costs_more(const struct search *s, unsigned n_costs)
{
    return s->found && compare(&s->at.cost, &s->best.cost, n_costs) > 0;
}

/* Fills the instances of one profile. n_fresh counts the entries of fresh_holds that are set. */
static bool pack_profile(struct search *s, unsigned profile, unsigned *n_fresh)
{
    const struct mig_profile *p = &s->t->profiles[profile];
    struct mig_packing bins = {.n = 0};
    unsigned owner[MIG_MAX_INSTANCES];
    for (unsigned i = 0; i < s->n; i++) {
        const struct standing *it = &s->standing[i];
        if (it->profile != profile || s->at.fate[i] == GOES)
            continue;
        owner[bins.n] = i;
        bins.bins[bins.n].have = it->have;
        if (s->at.fate[i] == STAYS)
            bins.bins[bins.n].busy = it->in_use;
        bins.n++;
    }
    unsigned kept = bins.n;
    assert(kept == s->staying[profile]);
    if (!mig_pack(p->slices, &s->demand.of[profile], p->max_count, s->effort, &bins))
        return false;
    for (unsigned i = 0; i < kept; i++)
        s->at.holds[owner[i]] = bins.bins[i].holds;
    s->at.all.of[profile] = bins.n;
    s->at.fresh.of[profile] = bins.n - kept;
    /* No more new ones than an empty card takes, and that was checked to be feasible. */
    assert(*n_fresh + bins.n - kept <= MIG_MAX_INSTANCES);
    for (unsigned i = kept; i < bins.n; i++)
        s->at.fresh_holds[(*n_fresh)++] = bins.bins[i].holds;
    assert(bins.retained <= s->at.cost.of[NOT_RETAINED]);
    s->at.cost.of[NOT_RETAINED] -= bins.retained;
    return true;
}

static bool pack(struct search *s)
{
    unsigned n_fresh = 0;
    s->at.all = s->at.fresh = (struct mig_counts){0};
    s->at.cost.of[NOT_RETAINED] = MIG_MAX_INSTANCES * MIG_MAX_CIS;
    for (unsigned p = 0; p < s->t->n_profiles; p++) {
        if (mig_cuts_total(&s->demand.of[p]) > 0 && !pack_profile(s, p, &n_fresh))
            return false;
    }
    s->at.cost.of[TOTAL] = s->n_staying + n_fresh;
    return true;
}

/* All fates are decided: keeps the solution if it is the best so far. */
static void settle(struct search *s, uint32_t taken)
{
    (void)mig_effort_spend(s->effort, 8 * s->t->n_profiles);
    if (!pack(s) || costs_more(s, NOT_RETAINED + 1) ||
        mig_limits_check(s->t, &s->limits, &s->at.all).limit != MIG_LIMIT_NONE ||
        !mig_place(s->t, &s->limits, taken, &s->at.fresh, s->effort, &s->at.layout))
        return;
    s->at.cost.of[NOT_FREE] = UINT32_MAX - s->at.layout.flexibility;
    s->at.cost.of[NOT_RUN] = MIG_MAX_MEMORY_SLICES - s->at.layout.run;
    if (s->found && compare(&s->at.cost, &s->best.cost, N_COSTS) >= 0)
        return;
    assert(s->at.layout.n + s->n_staying == s->at.cost.of[TOTAL]);
    s->found = true;
    s->best = s->at;
}

static void decide(struct search *s, unsigned item, uint32_t taken);

static void try_fate(struct search *s, unsigned item, enum fate fate, uint32_t taken)
{
    const struct standing *it = &s->standing[item];
    unsigned lost = it->busy && fate != STAYS;
    unsigned gone = fate == GOES;
    s->at.fate[item] = fate;
    s->at.cost.of[LOST] += lost;
    s->at.cost.of[DESTROYED] += gone;
    s->n_staying += !gone;
    s->at.cost.of[TOTAL] = s->n_staying; /* lower bound */
    if (!costs_more(s, DESTROYED + 1))
        decide(s, item + 1, gone ? taken : taken | it->memory_slices);
    s->n_staying -= !gone;
    s->at.cost.of[DESTROYED] -= gone;
    s->at.cost.of[LOST] -= lost;
}

/* True when it could be part of the wanted layout beside the instances that stay already. */
static bool may_stay(const struct search *s, const struct standing *it, uint32_t taken)
{
    if (it->profile == MIG_NO_PROFILE || (it->memory_slices & taken))
        return false;
    unsigned most = s->t->profiles[it->profile].max_count;
    unsigned wanted = mig_cuts_total(&s->demand.of[it->profile]);
    return s->staying[it->profile] < (most < wanted ? most : wanted);
}

static void decide(struct search *s, unsigned item, uint32_t taken)
{
    assert(item <= s->n && s->n_staying <= item);
    if (!mig_effort_spend(s->effort, 8))
        return;
    if (item == s->n) {
        settle(s, taken);
        return;
    }
    const struct standing *it = &s->standing[item];
    if (may_stay(s, it, taken)) {
        s->staying[it->profile]++;
        if (!it->busy_odd)
            try_fate(s, item, STAYS, taken);
        if (it->busy_odd || mig_cuts_total(&it->in_use) > 0)
            try_fate(s, item, YIELDS, taken);
        s->staying[it->profile]--;
    }
    try_fate(s, item, GOES, taken);
}

/* Compute slices of the compute instances of a GPU instance, largest first. They fit, because
 * mig_ci_max offers no size of which more than MIG_MAX_CIS would fit. */
static unsigned list_cis(unsigned slices, const struct mig_cuts *c, unsigned ret[MIG_MAX_CIS])
{
    unsigned n = 0;
    assert(mig_cuts_total(c) <= MIG_MAX_CIS);
    for (unsigned i = 0; i < c->n[0]; i++)
        ret[n++] = slices;
    for (unsigned kind = MIG_CI_KINDS; kind-- > 1;) {
        for (unsigned i = 0; i < c->n[kind]; i++)
            ret[n++] = kind;
    }
    return n;
}

/* Removes from `surplus` the compute instances that go; one pass for those in use, one for the
 * others. */
static uint32_t drop_cis(const struct mig_instance *it, unsigned slices, bool in_use,
                         struct mig_cuts *surplus)
{
    uint32_t gone = 0;
    for (unsigned i = it->n_cis; i-- > 0;) {
        unsigned kind = mig_cut_kind(slices, it->cis[i].slices);
        if (it->cis[i].in_use != in_use || (kind < MIG_CI_KINDS && surplus->n[kind] == 0))
            continue;
        gone |= UINT32_C(1) << i;
        if (kind < MIG_CI_KINDS)
            surplus->n[kind]--;
    }
    return gone;
}

static void recut(const struct search *s, const struct mig_instance *it, unsigned item,
                  struct mig_plan *plan)
{
    unsigned slices = s->t->profiles[it->profile].slices;
    const struct mig_cuts *have = &s->standing[item].have;
    const struct mig_cuts *holds = &s->best.holds[item];
    struct mig_cuts surplus = {{0}}, missing = {{0}};
    for (unsigned kind = 0; kind < MIG_CI_KINDS; kind++) {
        if (have->n[kind] > holds->n[kind])
            surplus.n[kind] = (uint8_t)(have->n[kind] - holds->n[kind]);
        else
            missing.n[kind] = (uint8_t)(holds->n[kind] - have->n[kind]);
    }
    struct mig_recut r = {.instance = item};
    r.destroy = drop_cis(it, slices, /* in_use= */ false, &surplus);
    r.destroy |= drop_cis(it, slices, /* in_use= */ true, &surplus);
    assert(mig_cuts_total(&surplus) == 0);
    r.n_create = list_cis(slices, &missing, r.create);
    if (r.destroy || r.n_create)
        plan->recut[plan->n_recut++] = r;
}

static void create(const struct search *s, struct mig_plan *plan)
{
    const struct solution *b = &s->best;
    unsigned next[MIG_MAX_PROFILES];
    for (unsigned p = 0, n = 0; p < s->t->n_profiles; p++) {
        next[p] = n;
        n += b->fresh.of[p];
    }
    plan->n_create = b->layout.n;
    for (unsigned i = 0; i < b->layout.n; i++) {
        struct mig_new *it = &plan->create[i];
        *it = b->layout.items[i];
        const struct mig_cuts *holds = &b->fresh_holds[next[it->profile]++];
        assert(next[it->profile] <= b->layout.n);
        it->n_cis = list_cis(s->t->profiles[it->profile].slices, holds, it->cis);
    }
}

static uint32_t first_bits(unsigned n)
{
    assert(n <= MIG_MAX_INSTANCES);
    return (UINT32_C(1) << n) - 1;
}

static void write_plan(const struct search *s, const struct mig_state *now, struct mig_plan *plan)
{
    for (unsigned i = 0; i < s->n; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if (s->best.fate[i] == GOES) {
            plan->destroy |= bit;
        } else {
            plan->keep |= bit;
            recut(s, &now->items[i], i, plan);
        }
        if (s->standing[i].busy && s->best.fate[i] != STAYS)
            plan->blocking |= bit;
    }
    assert((plan->keep ^ plan->destroy) == first_bits(s->n) && !(plan->keep & plan->destroy));
    create(s, plan);
    if (plan->blocking)
        plan->verdict = MIG_PLAN_DRAIN;
    else if (plan->destroy || plan->n_create || plan->n_recut)
        plan->verdict = MIG_PLAN_CHANGE;
    else
        plan->verdict = MIG_PLAN_NOTHING;
}

static bool is_disjoint(const struct mig_table *t, const struct mig_state *now)
{
    uint32_t taken = 0;
    for (unsigned i = 0; i < now->n; i++) {
        uint32_t memory_slices = mig_memory_slices(now->items[i].start, now->items[i].size);
        if (memory_slices & taken || memory_slices & ~mig_memory_slices(0, t->memory_slices))
            return false;
        taken |= memory_slices;
    }
    return true;
}

/* The search was too long to prove that it is infeasible, or that the best plan found so far is the
 * best. */
static void leave_undecided(const struct mig_wants *wants, struct mig_plan *ret)
{
    ret->undecided = true;
    (void)snprintf(ret->reason, sizeof(ret->reason),
                   "whether %u kinds of partitions fit could not be decided in %d steps; ask for "
                   "fewer kinds on one card",
                   wants->n, MIG_MAX_STEPS);
}

void mig_plan_unexplained(const struct mig_table *t, const struct mig_state *now,
                          const struct mig_wants *wants, struct mig_plan *ret)
{
    assert(now->n <= MIG_MAX_INSTANCES && wants->n <= MIG_MAX_WANTS);
    if (mig_matches(t, now, wants) && is_disjoint(t, now)) {
        *ret = (struct mig_plan){.verdict = MIG_PLAN_NOTHING, .keep = first_bits(now->n)};
        return;
    }
    *ret = (struct mig_plan){.verdict = MIG_PLAN_INFEASIBLE};
    struct mig_effort effort = mig_effort_whole();
    struct search s = {.t = t, .effort = &effort, .n = now->n};
    mig_limits_init(t, &s.limits);
    if (mig_demand_init(t, wants, &s.demand) && mig_feasible_within(t, &s.limits, wants, &effort)) {
        for (unsigned i = 0; i < now->n; i++)
            s.standing[i] = observe(t, &now->items[i]);
        decide(&s, /* item= */ 0, /* taken= */ 0);
    }
    ret->keep = first_bits(now->n);
    ret->steps = mig_effort_spent(&effort);
    if (mig_effort_is_spent(&effort)) {
        leave_undecided(wants, ret);
    } else if (s.found) {
        ret->keep = 0;
        write_plan(&s, now, ret);
    }
}

void mig_plan(const struct mig_table *t, const struct mig_state *now, const struct mig_wants *wants,
              struct mig_plan *ret)
{
    struct mig_limits limits;
    mig_plan_unexplained(t, now, wants, ret);
    if (ret->verdict != MIG_PLAN_INFEASIBLE || ret->undecided)
        return;
    mig_limits_init(t, &limits);
    mig_nearest(t, &limits, wants, &ret->nearest);
    mig_explain(t, &limits, wants, ret->reason, sizeof(ret->reason));
}

/* Sums the existing instances by profile and kind; false when no wants can express them. */
static bool sum_state(const struct mig_table *t, const struct mig_state *now,
                      struct mig_demand *ret)
{
    *ret = (struct mig_demand){0};
    for (unsigned i = 0; i < now->n; i++) {
        const struct mig_instance *it = &now->items[i];
        if (it->profile >= t->n_profiles || it->n_cis == 0)
            return false;
        for (unsigned c = 0; c < it->n_cis; c++) {
            unsigned kind = mig_cut_kind(t->profiles[it->profile].slices, it->cis[c].slices);
            if (kind == MIG_CI_KINDS)
                return false;
            mig_cuts_add(&ret->of[it->profile], kind, 1);
        }
    }
    return true;
}

bool mig_matches(const struct mig_table *t, const struct mig_state *now,
                 const struct mig_wants *wants)
{
    assert(t->n_profiles <= MIG_MAX_PROFILES);
    struct mig_demand stands, wanted;
    return sum_state(t, now, &stands) && mig_demand_init(t, wants, &wanted) &&
           memcmp(&stands, &wanted, sizeof(stands)) == 0;
}
