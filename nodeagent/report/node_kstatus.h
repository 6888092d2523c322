/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/node_state.h"
#include "service/conditions.h"

/* The state of the node as a whole, for the Device's conditions Ready, Reconciling and Stalled.
 * Pure. */
struct node_kstatus {
    enum kstatus state;
    const char *reason; /* static */
    char *message;      /* owned; NULL: the hardware is as wanted */
};

/* built: the status built so far, with the conditions of each card. */
struct node_kstatus node_kstatus_of(const struct node_state *s, const struct device_status *built);
