/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/consumers.h"
#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/telemetry/telemetry_node.h"

/*
 * Attribution gives a value to the holder of its place. Where one container has the place alone,
 * all of the value is its own. Where several share the place, the use of processors and of memory
 * is split by processes, each of which belongs to the pod of its cgroup; other values have no
 * holder there. Pure.
 */

/* A part of a value. */
struct attributed {
    const struct telemetry_holder *holder; /* NULL: none that is known */
    double value;
};

/* A card as it was read, and the pods of its processes. */
struct attribution_reading {
    const struct telemetry_card *card;
    const struct consumer *pods; /* one for each process; pod_uid "": it is in no pod */
};

/* Splits a value of this place, in any unit, into parts that add up to it: one for each holder
 * whose uid is known, and last the rest, which has no holder. A process's value times `factor` is
 * in the unit of `whole`. Where processes have more than the place, as between two samples, each
 * part is reduced. ret has room for n_holders + 1. Returns the number of parts; 0: whole is
 * negative, or no finite number. */
size_t attribution_of(const struct telemetry_place *p, enum telemetry_value v, double whole,
                      double factor, const struct attribution_reading *r, struct attributed *ret);
