/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/mps.h"
#include "nodeagent/loop/seals.h"
#include "nodeagent/offer/device_table.h"
#include "nodeagent/offer/mps_cards.h"

/* What is shared by MPS, each with a daemon of its own: devices of a table, and cards whose shares are
 * clients. The latter's are named by the card's UUID. */
struct mps_units {
    struct mps_unit *items;
    struct mps_device **devices; /* allocated one by one, so that their addresses stay */
    size_t n, n_devices;
};

/* The name of the device's MPS daemon. Borrowed from d. */
const char *mps_units_name(const struct table_device *d);
/* The units of the table's devices, and of cards whose shares are clients; not of what is sealed,
 * which is about to go. Borrows the strings of both. */
struct mps_units mps_units_of(const struct device_table *table, const struct mps_cards *cards,
                              const struct seals *seals);
void mps_units_done(struct mps_units *u);
AUTO_DEFINE(mps_units, struct mps_units, mps_units_done)
#define auto_mps_units AUTO(mps_units)
