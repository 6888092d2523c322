/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

/* The room on a card beside the instances that must stay. */
struct mig_room {
    /* The largest profile that fits, by memory, then by compute; NULL: none. Borrowed from the table. */
    const struct mig_profile *largest;
    unsigned memory_slices; /* those that no instance covers */
};

/* The room beside `kept`. Total: instances that overlap, lie off the grid or have a profile that is
 * not in the table only cover their memory slices. */
struct mig_room mig_room(const struct mig_table *t, const struct mig_state *kept);
