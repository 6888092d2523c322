/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_slots.h"

#include <assert.h>

static_assert(SLOT_MAX % 64 == 0, "a bit for each slot");
static_assert(SGPU_MAX_SLOTS == SLOT_POOL_SIZE && SLOT_POOL_SGPU == 0,
              "the number in a slice's alias is its slot");

void device_slots_put(struct device_slots *s, unsigned slot)
{
    assert(slot < SLOT_MAX);
    s->bits[slot / 64] |= UINT64_C(1) << (slot % 64);
}

void device_slots_add(struct device_slots *s, const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *slice = &card->sgpu.items[i];
        int slot = slice->foreign ? -1 : sgpu_slot_of(slice->alias);
        if (slot >= 0)
            device_slots_put(s, (unsigned)slot);
    }
}

bool device_slots_has(const struct device_slots *s, unsigned slot)
{
    assert(slot < SLOT_MAX);
    return s->bits[slot / 64] >> (slot % 64) & 1;
}
