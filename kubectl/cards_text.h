/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubectl/screen.h"

/* The cards of one node, for a person and for programs. Pure. */

struct node_cards_view {
    const char *name;
    const struct device_status *status; /* NULL: error says why there is none */
    const char *error;
    bool has_node;          /* what follows is known */
    bool cordoned, unready; /* the Node's */
};

/* Appends the node's lines: a heading, and for each card a heading, its bar, who has which part,
 * and which room is free. */
void cards_text(const struct node_cards_view *v, const struct screen *s, struct sb *ret);
/* The node as a document (docs/kubectl.md). New reference. */
json_t *cards_json(const struct node_cards_view *v);
