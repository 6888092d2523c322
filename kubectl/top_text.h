/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "kubectl/screen.h"
#include "kubectl/top.h"

/* The use of nodes' cards now, as lines for a person and as a document for programs. Pure. */

struct top_view {
    const char *name;
    const struct top_node *node; /* NULL: error says why there is none */
    const char *error;
};

/* Appends the columns' titles. */
void top_text_head(const struct screen *s, struct sb *ret);
/* Appends the node's lines: its name, and a line for each card, GPU instance, and pod. */
void top_text(const struct top_view *v, const struct screen *s, struct sb *ret);
/* The node as a document (docs/kubectl.md). New reference. */
json_t *top_json(const struct top_view *v);
