/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "kubectl/cluster_plan.h"
#include "kubectl/screen.h"

/* A plan for a person, and for programs. */

/* Appends the plan: each node with its cards, the order, and the sums. */
void plan_text(const struct cluster_plan *p, const struct screen *s, struct sb *ret);
/* The plan as a document (docs/kubectl.md). New reference. */
json_t *plan_json(const struct cluster_plan *p);
/* Writes that document as JSON, to the byte as command_print would, node by node: the document of a
 * large cluster is several times as large as the plan. Below 0: it cannot be written. */
int plan_json_write(const struct cluster_plan *p, FILE *out) MUST_CHECK;
