/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

/* A partition as Device.status tells it: its place and its profile, in words. Pure. */

/* "start:size", in memory slices. False: it is nowhere on a card. NULL allowed. */
bool mig_part_place(const char *placement, unsigned *ret_start, unsigned *ret_size);
/* The index of its GPU instance's profile in the table; MIG_NO_PROFILE: the table has none of that
 * name. *ret_ci_slices: of a compute instance that is smaller than its GPU instance; else 0. NULL
 * allowed. */
unsigned mig_part_profile(const struct mig_table *t, const char *profile, unsigned *ret_ci_slices);
