/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/node_offer.h"
#include "nodeagent/offer/node_state.h"

/*
 * The Device's status: a pure function of the node's state and its offer. No I/O; the time is
 * given.
 */

/* prev (may be NULL) is the status published last. Conditions take their lastTransitionTime from
 * it. It also stands in for what has not been read since the agent started: everything before the
 * first reading, single cards later. *ret is the caller's (device_status_done). */
void node_status_build(const struct node_state *s, const struct node_offer *o,
                       const struct device_status *prev, int64_t now_ms, struct device_status *ret);
