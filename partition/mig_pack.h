/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"
#include "partition/mig_effort.h"

/*
 * How compute instances share GPU instances of one profile: exact bin packing, pure. Internal to
 * partition/.
 */

/* Compute instances by kind: n[0] counts those that fill their GPU instance, n[c] those of c
 * slices. Counts saturate at UINT8_MAX, which is more than any card holds. */
#define MIG_CI_KINDS (MIG_MAX_CIS + 1)
struct mig_cuts {
    uint8_t n[MIG_CI_KINDS];
};

/* The wanted compute instances, by profile. */
struct mig_demand {
    struct mig_cuts of[MIG_MAX_PROFILES];
};

/* One GPU instance to fill: what it holds now, which of that must stay, and the result. */
struct mig_bin {
    struct mig_cuts have, busy, holds;
};

struct mig_packing {
    unsigned n;
    unsigned retained; /* compute instances that stay, over all bins */
    struct mig_bin bins[MIG_MAX_INSTANCES];
};

/* The kind of a compute instance inside a GPU instance of `slices`; MIG_CI_KINDS when that size is
 * not offered there. ci_slices 0 fills the instance. */
unsigned mig_cut_kind(unsigned slices, unsigned ci_slices);

/* Slices of a compute instance of that kind. */
unsigned mig_cut_slices(unsigned slices, unsigned kind);

/* Adds count to a kind, saturating. */
void mig_cuts_add(struct mig_cuts *c, unsigned kind, unsigned count);

/* Number of compute instances over all kinds. */
unsigned mig_cuts_total(const struct mig_cuts *c);

/* Compute slices that these take together in GPU instances of `slices`. */
unsigned mig_cuts_slices(const struct mig_cuts *c, unsigned slices);

/* The kind of compute instance that a want means; MIG_CI_KINDS when the table has no such profile
 * or the profile no such size. */
unsigned mig_want_kind(const struct mig_table *t, const struct mig_want *w);

/* Sums the wants by profile and kind. False when the table does not have one of them; the sum then
 * holds the others. */
bool mig_demand_init(const struct mig_table *t, const struct mig_wants *wants,
                     struct mig_demand *ret);

/* Packs exactly `demand` into the p->n bins given (have and busy set) and as few further bins as
 * possible, at most max_bins in all. Every bin gets at least one compute instance, and busy ones
 * stay. Among the packings with the fewest bins it takes one that retains most. False, and
 * p->bins[].holds undefined, when there is none. */
bool mig_pack(unsigned slices, const struct mig_cuts *demand, unsigned max_bins,
              struct mig_effort *effort, struct mig_packing *p);
