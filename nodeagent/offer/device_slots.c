/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_slots.h"

#include <assert.h>

#include "base/auto.h"

#include "nodeagent/offer/holders.h"

static_assert(SLOT_MAX % 64 == 0, "a bit for each slot");
static_assert(SGPU_MAX_SLOTS == SLOT_POOL_SIZE && SLOT_POOL_SGPU == 0,
              "the number in a slice's alias is its slot");

void device_slots_put(struct device_slots *s, unsigned slot)
{
    assert(slot < SLOT_MAX);
    s->bits[slot / 64] |= UINT64_C(1) << (slot % 64);
}

void device_slots_drop(struct device_slots *s, unsigned slot)
{
    assert(slot < SLOT_MAX);
    s->bits[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
}

void device_slots_join(struct device_slots *s, const struct device_slots *more)
{
    for (size_t i = 0; i < ARRAY_LEN(s->bits); i++)
        s->bits[i] |= more->bits[i];
}

static void add_id(struct device_slots *s, const char *id)
{
    int slot = slot_of_id(id);
    if (slot >= 0)
        device_slots_put(s, (unsigned)slot);
}

void device_slots_add_held(struct device_slots *s, const struct holders *h)
{
    for (size_t i = 0; i < h->n_listed; i++)
        add_id(s, h->listed[i].id);
    for (size_t i = 0; i < h->n_grants; i++)
        add_id(s, h->grants[i].id);
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
