/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig_place.h"

/*
 * The layout to offer a person whose own cannot stand. Internal to partition/.
 */

/* As many of the wanted partitions as can stand together, of those choices one that covers most
 * memory, and for each partition dropped the closest profile, no larger, that still finds room.
 * Exact in the first two, greedy in the last; what was found so far where the search takes more
 * than MIG_MAX_STEPS. */
void mig_nearest(const struct mig_table *t, const struct mig_limits *l,
                 const struct mig_wants *wants, struct mig_wants *ret);
