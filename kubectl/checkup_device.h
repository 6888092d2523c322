/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubectl/complaints.h"

/* Findings in one object's own status. Pure. */

/* Work that goes on by itself is a finding after so long. */
enum { CHECKUP_STUCK_MS = 600000 };

/* Adds what the condition Ready of an object of ours says, if it is not True; like: the object.
 * Work that goes on by itself is no finding before it has gone on for CHECKUP_STUCK_MS. */
void checkup_ready(struct complaints *l, const struct complaint *like,
                   const struct conditions *conditions, int64_t now_ms);
/* Adds the findings of a Device: those of its cards, then those of the node. unseen: the agent has
 * not seen its spec for a while. */
void checkup_status(struct complaints *l, const char *node, const struct device_status *st,
                    bool unseen, int64_t now_ms);
