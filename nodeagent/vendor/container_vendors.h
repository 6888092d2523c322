/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"

/* How a vendor's devices get into a container (container_vendor.h), found by the vendor's name. */

/* NULL: no vendor has this name, or name is NULL. */
const struct container_vendor *container_vendor_find(const char *name);

/* Looks up the files that drivers make by themselves: the DRI nodes of the cards at these PCI
 * addresses (dri_nodes_read), and the vendors' other files. ret->nvidia is not changed. */
void container_nodes_look(const struct dri_where *w, const char *host_dev_root,
                          const char *const *bus_ids, size_t n, struct container_nodes *ret);
/* True when two looks found the same. It compares member by member: a vendor's new one belongs
 * there. */
bool container_nodes_same_look(const struct container_nodes *a, const struct container_nodes *b);
