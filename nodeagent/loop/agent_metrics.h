/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/transaction.h"
#include "nodeagent/loop/kubelet_link.h"
#include "service/metrics.h"

/*
 * The loop's metrics (docs/metrics.md; those of health are in health/health_watch.c): attempts at
 * cards, what the node has, and, where there is a kubelet, who holds what and how soon it was
 * bound. The loop's thread only.
 */
struct agent_metrics;

/* Registers the metrics. Borrows m and kubelet. m NULL: returns NULL, which all functions here
 * accept. kubelet NULL: there is none. serves: the agent serves it, and does not only observe. */
struct agent_metrics *agent_metrics_new(struct metrics *m, const struct kubelet_link *kubelet,
                                        bool serves);
/* Whether the agent stands by: another process has the cards. */
void agent_metrics_standby(struct agent_metrics *m, bool is_standby);
/* Counts one attempt at a card. */
void agent_metrics_count(struct agent_metrics *m, const struct txn_result *r, int64_t took_ms);
/* Takes the time from a container's pod being known to its slots being bound. */
void agent_metrics_bound(struct agent_metrics *m, int64_t took_us);
/* Sets the gauges to the status that is about to be published. stuck: a vendor call is past its
 * deadline. */
void agent_metrics_show(struct agent_metrics *m, const struct device_status *st, bool stuck);
struct agent_metrics *agent_metrics_free(struct agent_metrics *m); /* NULL allowed; returns NULL */
