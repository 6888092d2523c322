/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/id_list.h"

#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/device_id.h"

void id_list_done(struct id_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i]);
    free(l->items);
}

static bool is_of_slot(const struct card_part *p)
{
    return p->slice && sgpu_slot_of(p->slice->alias) >= 0;
}

static void add_id(struct id_list *l, const struct gpu_card *card, const struct card_part *part)
{
    char id[DEVICE_ID_BYTES];
    *XPUSH(l->items, l->n) = xstrdup(device_id(card, part, id));
}

void id_list_add(struct id_list *l, const struct gpu_card *card, const struct card_offer *stays)
{
    if (!stays->whole)
        add_id(l, card, /* part= */ NULL);
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part part = card_part_at(card, i);
        if (!card_offer_has(stays, &part) && !is_of_slot(&part))
            add_id(l, card, &part);
    }
}
