/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/heartbeat.h"

#include "nodeagent/worker.h"

/* What the agent's /healthz tells of. Borrowed. */
struct agent_liveness {
    struct heartbeats *beats;
    const struct worker *worker;
    const struct clock *clk; /* the worker's */
};

/* As liveness_page, arg is a struct agent_liveness. A call into a vendor's library that hangs gets
 * a line and is no reason to be started again: the driver would hang as before, and pods that share
 * a card by MPS would lose it. */
int agent_liveness_page(void *arg, struct sb *body);
