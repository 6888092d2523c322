/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler/extender.h"
#include "scheduler/hami_metrics.h"
#include "service/metrics.h"

/* The scheduler's page /metrics: its own, and behind them HAMi's, where they are wanted. */
struct scrape {
    struct metrics *metrics;
    struct view *view;
    enum hami_names names;
    extender_ready_fn *is_ready;
    const void *arg;
    struct metric_series *left_out; /* NULL: HAMi's are not wanted */
};

/* All are borrowed. HAMi's are left out until is_ready(arg), since cards look empty before, and
 * whenever they are longer than a page may be: a part of them would be wrong sums. */
struct scrape scrape_of(struct metrics *m, struct view *v, enum hami_names names,
                        extender_ready_fn *is_ready, const void *arg);
/* A http_get_fn; arg is a struct scrape. */
int scrape_page(void *arg, struct sb *body);
