/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/node_state.h"

/* A card's entry in the Device's status. Pure; the time is given. */

/* The status entry of one card. plan: the card's change that is being carried out or waits
 * (node_offer.plans); NULL: none. prev: the entry as last published; NULL: none. It takes the place
 * of a reading for a card that has not been read since the agent started. *to is the caller's, with
 * its status. */
void card_status_build(const struct node_state *s, const struct card_view *v,
                       const struct card_plan *plan, const struct device_card *prev, int64_t now_ms,
                       struct device_card *to);
