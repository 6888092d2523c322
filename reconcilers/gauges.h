/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"
#include "service/metrics.h"

/*
 * Gauges over the caches: GPUProfiles and Devices by their conditions Ready and Stalled, Nodes by
 * the state of their label. They are counted anew at each scrape, which takes about a millisecond
 * for a few thousand records, so that an unobserved controller pays nothing.
 */
struct gauges;

/* Registers the families with m. Borrows caches and m; free it after the last scrape. */
struct gauges *gauges_new(struct metrics *m, const struct caches *caches);
/* NULL allowed; returns NULL. */
struct gauges *gauges_free(struct gauges *g);
