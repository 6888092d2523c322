/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/entry.h"
#include "nodeagent/mode/card_part.h"

/* How a card or a part gets into a container (entry.h). Pure. */

/* The entry of a whole card, without cdi_name. Free it with entry_device_done. */
struct entry_device device_card_entry(const struct gpu_card *card);
/* The entry of a slice under this CDI name, which is taken over. Free *ret with
 * entry_device_done. */
void device_slice_entry(const struct gpu_card *card, const struct card_part *p, char *cdi_name_take,
                        struct entry_device *ret);
/* The entry of a share of the card under the name of its slot. Free *ret with entry_device_done. */
void device_share_entry(const struct gpu_card *card, unsigned slot, const struct sgpu_quota *quota,
                        struct entry_device *ret);
/* Checks that the device files exist with which containers use the card. nodes NULL: no check.
 * ERR_NOT_FOUND: one is missing without which the card cannot be used. */
int device_check_nodes(const struct device_nodes *nodes, const struct gpu_card *card,
                       struct err *e) MUST_CHECK;
