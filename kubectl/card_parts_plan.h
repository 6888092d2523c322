/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubectl/plan_values.h"
#include "nodeagent/change/card_plan.h"

/* The parts of one card before and after a plan, and the users that the plan waits for. Pure. */

/* Fills in stays, goes and comes of a plan that can be carried out. */
void card_parts_compare(const struct gpu_card *card, const struct card_plan *plan,
                        struct card_plan_view *ret);
/* Fills in users: those of the parts that block the plan, or of all the card. */
void card_parts_users(const struct gpu_card *card, const struct device_card *st,
                      const struct card_plan *plan, struct card_plan_view *ret);
