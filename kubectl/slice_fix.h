/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/layout_fix.h"

/*
 * The smallest change of one card that gives more slices of a kind that a profile names (MetaX sGPU):
 * more of it in the card's want, and where they have no room beside the others, fewer of these. Pure.
 */

/* The kind of slice that the resource means ("metax-tech.com/sgpu-small": "small"); NULL: none.
 * Borrowed. */
const char *slice_fix_kind(const char *resource);
/* As layout_fix_partitions, for slices of this kind. Their size is that of the wants of the node's
 * cards, the card's own first: for a kind that none of them names nothing is found. */
bool slice_fix_find(const struct device_card *card, const struct device_spec *spec,
                    const char *kind, unsigned more, struct fix_effort *effort,
                    struct layout_fix *ret);
