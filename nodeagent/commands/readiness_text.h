/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "api/condition.h"

/* What an installer asks of a node (report/node_readiness.h), as text for a terminal. Pure. */

/* Adds each of these conditions: a line with its status and reason, and its message below. Adds
 * nothing when there is none of them. */
void readiness_text_add(struct sb *out, const struct conditions *c);
