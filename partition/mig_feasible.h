/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig_place.h"

/*
 * Decides whether wants fit an empty card. Internal to partition/; others call mig_feasible.
 */

/* mig_feasible for a caller that has the table's limits. */
bool mig_feasible_within(const struct mig_table *t, const struct mig_limits *l,
                         const struct mig_wants *wants, struct mig_effort *effort);
