/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/node_fix.h"

/*
 * A change of cards that the node's label nvidia.com/mig.config governs. It beats every profile, so
 * that the layout has to be a MIGConfig, which the label then names (docs/api.md). Pure.
 */

/* The MIGConfig: the new layouts, and of all other cards that the label governs what they are to be
 * now, since a card that it does not name would be let go. It has the name of the node, as far as
 * that is one that a label can have. NULL: the label governs none of the cards that change, or they
 * are to have slices, which no MIGConfig has. New reference. */
json_t *label_fix_config(const char *node, const struct device_status *st,
                         const struct device_spec *spec, const struct node_fix *fix);
/* The commands that make the change, for a shell: they apply the MIGConfig, and set the label.
 * Caller frees. */
char *label_fix_commands(const char *node, const json_t *config);
