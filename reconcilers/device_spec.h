/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/* Device.spec: what one node's cards should be, from the label, profiles and configs that its view
 * holds, as far as the profiles' budgets let them begin. Pure; reconcilers/node.h writes it. */

/* Must the hardware change before the profile's wish for this node is met, and is that not yet
 * ordered? Then the profile's budget is asked. */
bool device_spec_needs_ticket(const struct node_view *v, const char *profile);

/* What the spec should be. Owns the array of cards and the message of a refused label: all else is
 * the view's. */
struct spec_draft {
    struct device_spec spec;
    bool changed; /* it differs from what stands */
};
/* The wishes of the profiles in `held` are not ordered yet: their cards keep what is in force. The
 * view has a Device. *ret is overwritten. */
void device_spec_draft(const struct node_view *v, const char *const *held, size_t n_held,
                       struct spec_draft *ret);
void spec_draft_done(struct spec_draft *d);
AUTO_DEFINE(spec_draft, struct spec_draft, spec_draft_done)
#define auto_spec_draft AUTO(spec_draft)

/* Does the Device belong to the Node that the view shows? */
bool device_spec_is_owned(const struct node_view *v);
/* The body to apply, or NULL when the Device says all of it already. New reference. */
json_t *device_spec_body(const struct node_view *v, const struct spec_draft *d);
/* Does the Device say no more than what was applied? What others wrote stands where we say nothing.
 */
bool device_spec_says_only(const json_t *device, const json_t *body);
