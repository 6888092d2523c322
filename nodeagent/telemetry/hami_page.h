/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/telemetry/dcgm_page.h"

/*
 * The metrics of HAMi's monitor on a node (cmd/vGPUmonitor/metrics.go, v2.10), from the same
 * readings as the page, so that dashboards and alerts of people who had HAMi go on.
 * docs/gpu-metrics.md says what is left out, and what differs. Pure.
 */

/* Appends the families of p->hami: NVIDIA's cards, and the containers' shares of them. */
void hami_page_write(const struct dcgm_page *p, struct sb *out);

/* The values that the page is made of. */
#define HAMI_PAGE_VALUES                                                                           \
    (TELEMETRY_BIT(TELEMETRY_MEMORY_USED) | TELEMETRY_BIT(TELEMETRY_MEMORY_RESERVED) |             \
     TELEMETRY_BIT(TELEMETRY_UTILIZATION) | TELEMETRY_BIT(TELEMETRY_COPY_UTILIZATION))
