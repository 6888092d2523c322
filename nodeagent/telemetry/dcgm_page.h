/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "interop/hami_names.h"
#include "nodeagent/telemetry/attribution.h"
#include "nodeagent/telemetry/counter_file.h"

/*
 * The page of telemetry: the newest readings of the cards in Prometheus' text format. NVIDIA's
 * cards have the names and labels of dcgm-exporter (github.com/NVIDIA/dcgm-exporter,
 * internal/pkg/rendermetrics/render_metrics.go and internal/pkg/transformation/const.go), others
 * those of neutral_fields.h. Pure.
 */

/* The spelling of labels. */
enum dcgm_labels {
    DCGM_LABELS_OLD,    /* Hostname: releases up to 4.5.3-4.8.2 */
    DCGM_LABELS_NEW,    /* hostname: since May 2026 */
    DCGM_LABELS_OLDEST, /* and uuid, pod_name, …: with their --use-old-namespace */
};

/* Borrows everything. */
struct dcgm_page {
    const struct telemetry_node *node;
    const struct attribution_reading *readings; /* one for each card of the node; card NULL: it was
                                                   never read */
    const struct counter_list *counters;        /* of NVIDIA's cards */
    const struct counter_list *neutral;         /* of the others; NULL: they are left out */
    const char *host;
    enum dcgm_labels labels;
    enum hami_names hami;
    bool without_pods; /* shared cards have one series without a pod */
};

/* Appends the page: metrics in the order of the counters, their series by card, place and pod. */
void dcgm_page_write(const struct dcgm_page *p, struct sb *out);
