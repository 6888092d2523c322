/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig_place.h"

/*
 * Explains to a person why wants are infeasible. Internal to partition/.
 */

/* Names the smallest group of wanted kinds that exceeds an empty card, and the limit that it
 * exceeds: "3g.40gb x3 needs 12 of 8 memory slices". The wants are infeasible. Cut off at the size
 * of the buffer. */
void mig_explain(const struct mig_table *t, const struct mig_limits *l,
                 const struct mig_wants *wants, char *buf, size_t bytes);
