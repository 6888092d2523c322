/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "reconcilers/node_view.h"
#include "service/metrics.h"

/*
 * Gauges of what the cluster's cards offer, of who has it, and of what is left: by resource name,
 * model and namespace, and memory by model. They are counted from the cache of Devices at a scrape,
 * and no more often than every CAPACITY_EVERY_MS, however many scrape: 5,000 nodes with 8 cards in 7
 * parts take 40 ms where a card's parts are one namespace's, and 120 ms where they are seven's. A
 * family has at most METRICS_MAX_SERIES rows; the smallest ones beyond that are one row whose labels
 * are "other".
 */
struct capacity;

enum { CAPACITY_EVERY_MS = 10000 };

/* The model of the resources of a node whose cards are of several. */
#define CAPACITY_SEVERAL "several"

/* Registers the families with m. Borrows all three; free it after the last scrape. */
struct capacity *capacity_new(struct metrics *m, const struct caches *caches,
                              const struct clock *clk);
/* NULL allowed; returns NULL. */
struct capacity *capacity_free(struct capacity *c);
