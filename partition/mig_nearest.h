/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig_place.h"

/*
 * The layout to suggest to a person whose own is infeasible. Internal to partition/.
 */

/* Keeps as many of the wanted partitions as fit together, and of such choices one that covers most
 * memory. Each dropped partition is replaced by the closest profile, not larger, that still fits.
 * The first two are exact, the replacement is greedy. When the search exceeds MIG_MAX_STEPS, its
 * best result so far is used. */
void mig_nearest(const struct mig_table *t, const struct mig_limits *l,
                 const struct mig_wants *wants, struct mig_wants *ret);
