/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/consumers.h"
#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/telemetry/telemetry_node.h"

/*
 * Whose a value is. What one container has alone is its own. On what several share, the use of the
 * processors and of memory is told apart by processes, each of which is of a pod by its cgroup; other
 * values are nobody's there. Pure.
 */

/* A part of a value. */
struct attributed {
    const struct telemetry_holder *holder; /* NULL: nobody's that is known */
    double value;
};

/* A card as it was read, and the pods of its processes. */
struct attribution_reading {
    const struct telemetry_card *card;
    const struct consumer *pods; /* one for each process; pod_uid "": it is in none */
};

/* Splits a value of this place, in any unit, into parts that add up to it: one for each holder whose
 * processes can be known, and the rest, which is nobody's, as the last. Where processes have more
 * than the place, as between two samples, each part is reduced. ret has room for n_holders + 1.
 * Returns how many there are; 0: whole is not a number, or cannot be. */
size_t attribution_of(const struct telemetry_place *p, enum telemetry_value v, double whole,
                      double factor, const struct attribution_reading *r, struct attributed *ret);
