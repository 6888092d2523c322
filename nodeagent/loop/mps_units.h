/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/mps.h"
#include "nodeagent/loop/seals.h"
#include "nodeagent/offer/device_table.h"

/* The devices of a table that are shared by MPS, each with a daemon of its own. */
struct mps_units {
    struct mps_unit *items;
    struct mps_device **devices; /* allocated one by one, so that their addresses stay */
    size_t n, n_devices;
};

/* The name of the device's MPS daemon. Borrowed from d. */
const char *mps_units_name(const struct table_device *d);
/* The units of the table whose devices are not sealed, which are about to go. Borrows the table's
 * strings. */
struct mps_units mps_units_of(const struct device_table *table, const struct seals *seals);
void mps_units_done(struct mps_units *u);
AUTO_DEFINE(mps_units, struct mps_units, mps_units_done)
#define auto_mps_units AUTO(mps_units)
