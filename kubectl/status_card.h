/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "nodeagent/gpu/gpu.h"

/*
 * A card as its node's agent reports it, in the shape that the agent's own planner takes
 * (nodeagent/change/card_plan.h): parts with their places, and who uses them. Pure. What a Device
 * does not say stays empty, so that a plan made of it knows no resets, and not on which compute
 * slice a part of a GPU instance begins.
 */

/* The table of the partitions that the card's model can have. Caller frees. NULL: it has no MIG, or
 * the table cannot be read. */
struct mig_table *status_card_table(const struct device_status *st, const struct device_card *card);
/* The card's name for a person, safe for a terminal: "NVIDIA GPU 0". Caller frees. */
char *status_card_title(const char *vendor, int64_t index);

/* Reads the card. table: status_card_table. *ret is overwritten; free it with gpu_card_done. */
void status_card_read(const struct device_card *from, const struct mig_table *table,
                      struct gpu_card *ret);
