/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/node_state.h"

/* A card's entry in the Device's status. Pure; the time is given. */

/* plan: the card's change that is being carried out or waits (node_offer.plans); NULL: none. prev:
 * the entry as it was published last; NULL: none. Of a card that was not read even once since the
 * agent started, prev stands in place of a reading. *to is the caller's, with its status. */
void card_status_build(const struct node_state *s, const struct card_view *v,
                       const struct card_plan *plan, const struct device_card *prev, int64_t now_ms,
                       struct device_card *to);
