/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"
#include "partition/mig_effort.h"

/*
 * How compute instances share GPU instances of one profile: exact bin packing, tiny and pure.
 * Internal to partition/.
 */

/* Compute instances by kind: n[0] those that fill their GPU instance, n[c] those of c slices.
 * Counts saturate at UINT8_MAX, which is beyond what any card holds. */
#define MIG_CI_KINDS (MIG_MAX_CIS + 1)
struct mig_cuts {
    uint8_t n[MIG_CI_KINDS];
};

/* What is wanted, by profile. */
struct mig_demand {
    struct mig_cuts of[MIG_MAX_PROFILES];
};

/* One GPU instance to fill: what it holds now, what of that must stay, and the answer. */
struct mig_bin {
    struct mig_cuts have, busy, holds;
};

struct mig_packing {
    unsigned n;
    unsigned retained; /* compute instances that stay, in all bins together */
    struct mig_bin bins[MIG_MAX_INSTANCES];
};

/* The kind of a compute instance inside a GPU instance of `slices`; MIG_CI_KINDS when that size is
 * not offered there. ci_slices 0 fills the instance. */
unsigned mig_cut_kind(unsigned slices, unsigned ci_slices);

/* Slices of a compute instance of that kind. */
unsigned mig_cut_slices(unsigned slices, unsigned kind);

/* Adds count, saturating. */
void mig_cuts_add(struct mig_cuts *c, unsigned kind, unsigned count);

/* Compute instances of all kinds. */
unsigned mig_cuts_total(const struct mig_cuts *c);

/* Slices that these take together in GPU instances of `slices`. */
unsigned mig_cuts_slices(const struct mig_cuts *c, unsigned slices);

/* The kind of compute instance that a want asks for; MIG_CI_KINDS when the table has no such
 * profile, or nothing of that size in it. */
unsigned mig_want_kind(const struct mig_table *t, const struct mig_want *w);

/* Sums the wants by profile and kind. False when one of them asks for what the table does not have;
 * the sum then holds the others. */
bool mig_demand_init(const struct mig_table *t, const struct mig_wants *wants,
                     struct mig_demand *ret);

/* Fills the p->n bins given (have and busy set) and as few further ones as it takes, at most
 * max_bins in all, with exactly `demand`; every bin ends with at least one compute instance, busy
 * ones stay. Of all ways that need the same number of bins it takes one that retains most. False,
 * and p->bins[].holds undefined, when there is none. */
bool mig_pack(unsigned slices, const struct mig_cuts *demand, unsigned max_bins,
              struct mig_effort *effort, struct mig_packing *p);
