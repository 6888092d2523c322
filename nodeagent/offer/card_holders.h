/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/offer/device_slots.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/shares.h"

/* Marks on the card the pods that hold it, its parts or shares of it, in place of the earlier marks
 * (gpu_card_set_holders). A pod that holds a slot which is not in `made` is marked as a holder of
 * each card on which the slot's slice may still be made. A share that is not made yet marks none:
 * it is made only on a card that is to stay fractional. */
void card_holders_mark(const struct holders *h, const struct device_slots *made,
                       const struct shares *shares, struct gpu_card *card);
