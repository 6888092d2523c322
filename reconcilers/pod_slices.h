/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/records.h"

/*
 * The cards of a node whose slices are made for pods as these come, for the schedulers that choose
 * among them. Pure.
 */

/* Are there such cards, or is one ordered to be, and is it Cleave who offers cards here? Where
 * another's device plugin serves the kubelet, what schedulers and it have to say to each other is
 * none of ours. */
bool pod_slices_are_ours(const struct device_record *device);

/* What partition/metax_cards.h says of them; NULL: nothing. Caller frees. */
char *pod_slices_text(const struct device_record *device);
