/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "partition/mig.h"

/* The largest partition that could be made on a card beside those that stand, none of which is
 * touched: by memory, then by compute slices (mig_plan decides). NULL: none, or the card is in
 * another mode. Borrowed from the table. Pure. */
const struct mig_profile *room_for_partition(const struct device_card *card,
                                             const struct mig_table *table);
