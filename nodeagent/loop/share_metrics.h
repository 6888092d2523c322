/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/metrics.h"

/* The metrics of limited shares (docs/metrics.md). The loop's thread only. */
struct share_metrics;

/* What is measured of one share. Strings are borrowed for the call. */
struct measured_share {
    const char *gpu, *ns, *pod, *container; /* ns, pod: "" while they are not known */
    uint64_t used_bytes, limit_bytes, context_bytes;
    bool takes_turns;              /* on its card: what follows is known */
    unsigned percent;              /* of its compute; 0: no guarantee */
    int64_t turn_us, throttled_us; /* it had its turn; it had work, and no turn */
    const char *breach;            /* its reason; NULL: there is none */
};

/* Registers the metrics. Borrows m. m NULL: returns NULL, which all functions here accept. */
struct share_metrics *share_metrics_new(struct metrics *m);
/* Shows these shares, and no others any more. */
void share_metrics_show(struct share_metrics *s, const struct measured_share *list, size_t n);
/* Counts a process that was ended because its container exceeds its share. */
void share_metrics_ended(struct share_metrics *s);
struct share_metrics *share_metrics_free(struct share_metrics *s); /* NULL allowed; returns NULL */
