/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"

#include "nodeagent/change/card_offer.h"

/* Ids of devices as the kubelet knows them: those that are about to leave the offer. Zeroed is
 * empty. */
struct id_list {
    char **items;
    size_t n;
};

/* Adds all devices of the card that `stays` does not offer. Slices of slots are left out: a slot
 * belongs to no card, so a slot that is granted late is made on another one. */
void id_list_add(struct id_list *l, const struct gpu_card *card, const struct card_offer *stays);
void id_list_done(struct id_list *l);
AUTO_DEFINE(id_list, struct id_list, id_list_done)
#define auto_id_list AUTO(id_list)
