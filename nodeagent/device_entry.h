/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/card_part.h"
#include "nodeagent/kubelet/container_vendor.h"
#include "nodeagent/kubelet/entry.h"

/* How cards and their parts get into containers (entry.h). Pure. */

/* A whole card; without cdi_name. Freed with entry_device_done. */
struct entry_device device_card_entry(const struct gpu_card *card);
/* A slice, under this CDI name, which is taken over. *ret is freed with entry_device_done. */
void device_slice_entry(const struct gpu_card *card, const struct card_part *p, char *cdi_name_take,
                        struct entry_device *ret);
/* The device files stand with which containers use the card. nodes NULL: that is not asked.
 * ERR_NOT_FOUND: not those without which it cannot be used. */
int device_check_nodes(const struct container_nodes *nodes, const struct gpu_card *card,
                       struct err *e) MUST_CHECK;
