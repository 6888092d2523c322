/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/memory_slices.h"

#include <assert.h>
#include <stdio.h>

const char *card_memory_slices(const struct mig_instance *inst, char ret[CARD_SLICES_BYTES])
{
    assert(inst->size > 0);
    if (inst->size == 1)
        (void)snprintf(ret, CARD_SLICES_BYTES, "slice %u", inst->start);
    else
        (void)snprintf(ret, CARD_SLICES_BYTES, "slices %u-%u", inst->start,
                       inst->start + inst->size - 1);
    return ret;
}
