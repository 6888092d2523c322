/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"

/* How a vendor's devices get into a container (container_vendor.h), found by the vendor's name; and
 * the device files of all vendors together. */

/* NULL: no vendor has this name, or name is NULL. */
const struct container_vendor *container_vendor_find(const char *name);

/* In the functions below every path of w is set, and the cards are of any vendor. They use disks:
 * for the worker's threads. */

/* Reads the DRI nodes of these cards and of their virtual functions, where their vendor uses them,
 * and each vendor's own files. After a failure the others are still read; the first failure is
 * returned. */
int device_nodes_read(const struct driver_where *w, const struct gpu_card *cards, size_t n_cards,
                      struct device_nodes *ret, struct err *e) MUST_CHECK;
/* True while the files that come and go by themselves are as in n. */
bool device_nodes_are_current(const struct driver_where *w, const struct gpu_card *cards,
                              size_t n_cards, const struct device_nodes *n);
/* Makes what is missing, where that is not the driver's and udev's work (container_own_files). */
int device_nodes_make(const struct driver_where *w, const struct gpu_card *cards, size_t n_cards,
                      struct device_nodes *n, struct err *e) MUST_CHECK;
int device_nodes_make_card(const struct driver_where *w, const struct gpu_card *card,
                           const struct device_nodes *n, struct err *e) MUST_CHECK;
