/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig_place.h"

/*
 * Whether wants can stand on an empty card. Internal to partition/; the public face is
 * mig_feasible.
 */

/* mig_feasible with the table's limits already worked out. */
bool mig_feasible_within(const struct mig_table *t, const struct mig_limits *l,
                         const struct mig_wants *wants, struct mig_effort *effort);
