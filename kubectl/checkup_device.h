/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubectl/complaints.h"

/* Findings in one object's own status. Pure. */

/* A change that waits for what comes by itself is a finding after so long. */
enum { CHECKUP_STUCK_MS = 600000 };

/* Ready of any kind of ours; like: the object. Nothing while there is no such condition, and of
 * work that goes on by itself nothing before it takes long. */
void checkup_ready(struct complaints *l, const struct complaint *like,
                   const struct conditions *conditions, int64_t now_ms);
/* A node's Device: its cards, then the node. unseen: the agent has not seen its spec for a while. */
void checkup_status(struct complaints *l, const char *node, const struct device_status *st,
                    bool unseen, int64_t now_ms);
