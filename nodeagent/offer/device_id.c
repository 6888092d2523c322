/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_id.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/mode/card_mode.h"

static_assert(DEVICE_ID_BYTES > GPU_UUID_BYTES + CARD_PLACE_BYTES &&
                  DEVICE_ID_BYTES >= SLOT_WORD_BYTES,
              "an id is never cut");

char *device_id(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    char place[CARD_PLACE_BYTES];
    int slot = p && p->slice ? sgpu_slot_of(p->slice->alias) : -1;
    if (slot >= 0)
        return slot_id((unsigned)slot, buf);
    if (p && card_mode_of(card->mode)->place(card, p, place))
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s", card->uuid, place);
    else
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s", card->uuid);
    return buf;
}

size_t device_id_base(const char *id)
{
    const char *replica = strstr(id, "::");
    return replica ? (size_t)(replica - id) : strlen(id);
}
