/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/offer/device_slots.h"
#include "nodeagent/offer/holders.h"

/* Marks on the card the pods that hold it or its parts, in place of the earlier marks
 * (gpu_card_set_holders). A pod that holds a slot which is not in `made` is marked as a holder of
 * each card on which the slot's slice may still be made. */
void card_holders_mark(const struct holders *h, const struct device_slots *made,
                       struct gpu_card *card);
