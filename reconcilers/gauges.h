/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/metrics.h"
#include "reconcilers/node_view.h"

/*
 * What the caches hold, counted anew at each scrape (a few thousand records take about a
 * millisecond): GPUProfiles and Devices by their conditions Ready and Stalled, Nodes by the state
 * of their label. Nothing is counted while nobody asks.
 */
struct gauges;

/* Registers the families with m. Borrows caches and m; freed after the last scrape. */
struct gauges *gauges_new(struct metrics *m, const struct caches *caches);
/* NULL allowed; returns NULL. */
struct gauges *gauges_free(struct gauges *g);
