/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_pack.h"

#include <assert.h>
#include <string.h>

static_assert(MIG_MAX_INSTANCES * MIG_MAX_CIS <= UINT8_MAX, "a saturated count fits no card");

/* nvidia.md 3.1 lists 2g: 1c; 3g: 1c 2c; 4g: 1c 2c; 7g: 1c 2c 3c 4c. Those are exactly the sizes up
 * to half of g rounded up, each as often as it fits. */
unsigned mig_ci_max(unsigned g, unsigned c)
{
    if (c == 0 || c > g)
        return 0;
    if (c == g)
        return 1;
    /* A mix has never more instances than the smallest size alone, so MIG_MAX_CIS is enough. */
    return c <= (g + 1) / 2 && g / c <= MIG_MAX_CIS ? g / c : 0;
}

unsigned mig_cut_kind(unsigned slices, unsigned ci_slices)
{
    if (ci_slices == 0 || ci_slices == slices)
        return 0;
    if (ci_slices > MIG_MAX_CIS || mig_ci_max(slices, ci_slices) == 0)
        return MIG_CI_KINDS;
    return ci_slices;
}

unsigned mig_cut_slices(unsigned slices, unsigned kind)
{
    assert(kind < MIG_CI_KINDS);
    return kind == 0 ? slices : kind;
}

void mig_cuts_add(struct mig_cuts *c, unsigned kind, unsigned count)
{
    assert(kind < MIG_CI_KINDS);
    unsigned room = UINT8_MAX - c->n[kind];
    c->n[kind] = (uint8_t)(c->n[kind] + (count < room ? count : room));
}

unsigned mig_cuts_total(const struct mig_cuts *c)
{
    unsigned total = 0;
    for (unsigned kind = 0; kind < MIG_CI_KINDS; kind++)
        total += c->n[kind];
    return total;
}

unsigned mig_cuts_slices(const struct mig_cuts *c, unsigned slices)
{
    unsigned total = 0;
    for (unsigned kind = 0; kind < MIG_CI_KINDS; kind++)
        total += c->n[kind] * mig_cut_slices(slices, kind);
    return total;
}

unsigned mig_want_kind(const struct mig_table *t, const struct mig_want *w)
{
    if (w->profile >= t->n_profiles)
        return MIG_CI_KINDS;
    const struct mig_profile *p = &t->profiles[w->profile];
    /* A status written by hand may list profiles without placements, or with any number. */
    if (p->slices == 0 || p->slices > MIG_MAX_MEMORY_SLICES || p->size == 0)
        return MIG_CI_KINDS;
    return mig_cut_kind(p->slices, w->ci_slices);
}

bool mig_demand_init(const struct mig_table *t, const struct mig_wants *wants,
                     struct mig_demand *ret)
{
    *ret = (struct mig_demand){0};
    bool known = true;
    for (unsigned i = 0; i < wants->n; i++) {
        const struct mig_want *w = &wants->items[i];
        if (w->count == 0)
            continue;
        unsigned kind = mig_want_kind(t, w);
        if (kind == MIG_CI_KINDS)
            known = false;
        else
            mig_cuts_add(&ret->of[w->profile], kind, w->count);
    }
    return known;
}

/* The search: bin by bin, and inside a bin kind by kind, each count from most to least. */
struct packer {
    unsigned slices;
    struct mig_effort *effort;
    unsigned first_new;    /* bins from here on are interchangeable */
    struct mig_cuts left;  /* demand not yet in a bin */
    unsigned left_slices;  /* slices of that demand */
    struct mig_packing at; /* holds of all bins before the current one */
    bool found;
    unsigned bound; /* no result retains more */
    struct mig_packing *best;
};

static void fill_bin(struct packer *k, unsigned bin);

static void finish(struct packer *k)
{
    assert(k->left_slices == 0); /* the last bin was left only when nothing remained */
    assert(k->at.retained <= k->bound);
    if (k->found && k->at.retained <= k->best->retained)
        return;
    k->found = true;
    *k->best = k->at;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static void leave_bin(struct packer *k, unsigned bin, unsigned used)
{
    const struct mig_bin *b = &k->at.bins[bin];
    bool in_order = bin <= k->first_new || memcmp(&b[-1].holds, &b->holds, sizeof(b->holds)) >= 0;
    assert(bin < k->at.n && used <= k->slices);
    unsigned room_ahead = (k->at.n - bin - 1) * k->slices;
    if (used > 0 && in_order && k->left_slices <= room_ahead)
        fill_bin(k, bin + 1);
}

static void choose(struct packer *k, unsigned bin, unsigned kind, unsigned used)
{
    if (!mig_effort_spend(k->effort, 4))
        return;
    if (kind == MIG_CI_KINDS) {
        leave_bin(k, bin, used);
        return;
    }
    struct mig_bin *b = &k->at.bins[bin];
    unsigned size = mig_cut_slices(k->slices, kind);
    unsigned most =
        least(k->left.n[kind], least(mig_ci_max(k->slices, size), (k->slices - used) / size));
    for (unsigned n = most + 1; n-- > b->busy.n[kind];) {
        unsigned kept = least(n, b->have.n[kind]);
        b->holds.n[kind] = (uint8_t)n;
        k->left.n[kind] = (uint8_t)(k->left.n[kind] - n);
        k->left_slices -= n * size;
        k->at.retained += kept;
        choose(k, bin, kind + 1, used + n * size);
        k->at.retained -= kept;
        k->left_slices += n * size;
        k->left.n[kind] = (uint8_t)(k->left.n[kind] + n);
    }
}

static void fill_bin(struct packer *k, unsigned bin)
{
    if (bin == k->at.n)
        finish(k);
    else
        choose(k, bin, 0, 0);
}

static unsigned retained_bound(const struct mig_cuts *demand, const struct mig_packing *p)
{
    unsigned bound = 0;
    for (unsigned kind = 0; kind < MIG_CI_KINDS; kind++) {
        unsigned have = 0;
        for (unsigned i = 0; i < p->n; i++)
            have += p->bins[i].have.n[kind];
        bound += least(have, demand->n[kind]);
    }
    return bound;
}

/* Lower bound: the slices must fit, and each kind by itself. */
static unsigned fewest_bins(unsigned slices, const struct mig_cuts *demand)
{
    unsigned fewest = (mig_cuts_slices(demand, slices) + slices - 1) / slices;
    for (unsigned kind = 0; kind < MIG_CI_KINDS; kind++) {
        if (demand->n[kind] == 0)
            continue;
        unsigned most = mig_ci_max(slices, mig_cut_slices(slices, kind));
        assert(most > 0); /* demand has only kinds that are offered */
        unsigned bins = (demand->n[kind] + most - 1) / most;
        fewest = bins > fewest ? bins : fewest;
    }
    return fewest;
}

bool mig_pack(unsigned slices, const struct mig_cuts *demand, unsigned max_bins,
              struct mig_effort *effort, struct mig_packing *p)
{
    assert(slices > 0 && p->n <= MIG_MAX_INSTANCES);
    struct packer k = {
        .slices = slices,
        .effort = effort,
        .first_new = p->n,
        .left = *demand,
        .left_slices = mig_cuts_slices(demand, slices),
        .at = *p,
        .best = p,
    };
    k.at.retained = 0;
    for (unsigned i = p->n; i < MIG_MAX_INSTANCES; i++)
        k.at.bins[i] = (struct mig_bin){.have = {{0}}};
    k.bound = retained_bound(demand, p);
    unsigned fewest = fewest_bins(slices, demand);
    (void)mig_effort_spend(effort, 100);
    unsigned most = least(least(max_bins, MIG_MAX_INSTANCES), mig_cuts_total(demand));
    for (k.at.n = p->n > fewest ? p->n : fewest; k.at.n <= most && !k.found; k.at.n++)
        fill_bin(&k, 0);
    return k.found;
}
