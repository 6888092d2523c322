/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/* True when the Node should have the taint gpu.cleave.dev/unhealthy (node_taint.h): a card is
 * unhealthy, and the profile that governs the card asks for the taint (spec.health.taint). v must
 * be resolved. Pure. */
bool taint_policy_wants(const struct node_view *v);
