/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/cluster_plan.h"
#include "kubectl/screen.h"

/* A plan for a person, and for programs. Pure. */

/* Appends it: each node with its cards, the order, and the sums. */
void plan_text(const struct cluster_plan *p, const struct screen *s, struct sb *ret);
/* A document {"kind": "Plan", …} (docs/kubectl.md). New reference. */
json_t *plan_json(const struct cluster_plan *p);
