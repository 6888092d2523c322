/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/container_vendor.h"

/*
 * MetaX's way into a container: /dev/mxcd, /dev/mxnd and /dev/mxgd, of each card its DRI nodes, and
 * for a slice what it is in the environment:
 *
 *   METAX_SGPUS=sgpu=0000:05:00.0#3;compute=10;vram=1024;alias=train
 *
 * A virtual function has DRI nodes of its own, below its own bus address, and is given like a card:
 * those of the card stay with the host, and nothing is known to be said of it in the environment.
 *
 * Libraries are not mounted: MetaX's images bring MACA. No variable is known by which a container
 * runtime of MetaX's would make device files. Source: MetaX's documentation of sGPU, and for the
 * variable a third party that says it has not tried it on a card (GPUStack). How several slices
 * are written is known of nobody; entries joined by ',' are a guess that no card has seen. The
 * members of struct container_vendor.
 */

void container_metax_read_nodes(const char *dev_root, struct container_nodes *ret);
void container_metax_common_nodes(const struct container_nodes *n, struct node_list *ret);

/* ERR_NOT_FOUND: /dev/mxcd or the card's render node does not stand. */
int container_metax_device_nodes(const struct container_nodes *n, const struct entry_device *d,
                                 struct node_list *ret, struct err *e) MUST_CHECK;

/* Of whole cards and of virtual functions nothing is to be said. ERR_INVALID: a bus address that is
 * none, or an alias that would read as something else. */
int container_metax_device_env(const struct entry_device *const *devices, size_t n,
                               const char **ret_key, char **ret_value, struct err *e) MUST_CHECK;
