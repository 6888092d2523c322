/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/* What the driver reports of a card's health (struct gpu_vitals), for all vendors. Pure. */

/* A recovery that a card needs some time although it is healthy: a condition's reason (static), and
 * its message in ret_message (static). NULL: none. */
const char *vitals_notice(const struct gpu_vitals *v, const char **ret_message);

/* True when the driver reports its recovery action, and the action is "none". */
bool vitals_are_well(const struct gpu_vitals *v);

/* True when the card was reset between two readings. Only a reset clears a pending remapping, the
 * count of errors since the last reset, or a requested action. */
bool vitals_show_reset(const struct gpu_vitals *before, const struct gpu_vitals *after);

/* Marks the card and all its partitions as ill. Texts are copied and cut to their arrays. */
void gpu_card_mark_ill(struct gpu_card *card, const char *reason, const char *message);
