/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/node_offer.h"
#include "nodeagent/node_state.h"

/*
 * The Device's status: a pure function of the node's state and of its offer. No I/O; the time is
 * given.
 */

/* prev (may be NULL) gives conditions their lastTransitionTime, and what could not be read since
 * the agent started: all of it before the first reading, later single cards. *ret is the caller's
 * (device_status_done). */
void node_status_build(const struct node_state *s, const struct node_offer *o,
                       const struct device_status *prev, int64_t now_ms, struct device_status *ret);
