/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/heartbeat.h"

#include "nodeagent/loop/worker.h"

/* The agent's page /healthz: what it looks at, and the page. */

/* Borrowed. */
struct agent_liveness {
    struct heartbeats *beats;
    const struct worker *worker;
    const struct clock *clk; /* the worker's */
};

/* As liveness_page; arg is a struct agent_liveness. A hanging call into a vendor's library gets a
 * line but does not make the agent unhealthy: after a restart the driver would hang as before, and
 * pods that share a card by MPS would lose their contexts. A job that hangs outside any such call
 * makes it unhealthy after five minutes: no driver is behind it. */
int agent_liveness_page(void *arg, struct sb *body);
