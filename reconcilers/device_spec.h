/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Device.spec: what one node's cards should be, resolved from label, profiles and configs, paced by
 * the profiles' budgets. Key: the node's name. Writes by server-side apply, and only what differs.
 */
struct controller *device_spec_controller_new(struct context *ctx);

/* --- Pure --- */

/* Must the hardware change before the profile's wish for this node is met, and is that not yet
 * ordered? Then the profile's budget is asked. */
bool device_spec_needs_ticket(const struct node_view *v, const char *profile);

/* The body to apply, or NULL when the Device says all of it already. The wishes of the profiles in
 * `held` are not ordered yet: their cards keep what is in force. New reference. */
json_t *device_spec_body(const struct node_view *v, const char *const *held, size_t n_held);
