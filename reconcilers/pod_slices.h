/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/records/device_record.h"

/*
 * Cards whose slices are made for each pod as it comes, as the schedulers that choose a card need
 * to see them. Pure.
 */

/* True when the node has such cards, or one is ordered to become one, and Cleave offers them. False
 * where another's device plugin serves the kubelet: that plugin talks to its scheduler itself. */
bool pod_slices_are_ours(const struct device_record *device);

/* The text of interop/metax_cards.h for these cards; NULL: none. Caller frees. */
char *pod_slices_text(const struct device_record *device);
