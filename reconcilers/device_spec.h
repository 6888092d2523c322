/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/* Device.spec: what the cards of one node should be. It follows from the label, the profiles and
 * the configs in the node's view, as far as the profiles' budgets allow changes to begin. Pure;
 * reconcilers/node.c writes it. */

/* True when the hardware must change for this profile's want and the change is not ordered yet. The
 * profile's budget must then have room before it is ordered. */
bool device_spec_needs_ticket(const struct node_view *v, const char *profile);

/* The spec to write. Owns the array of cards and the message of a refused label; everything else is
 * borrowed from the view. */
struct spec_draft {
    struct device_spec spec;
    bool changed; /* it differs from the Device's present spec */
};
/* Drafts the spec. Changes for the profiles in `waiting` are not ordered yet: their cards keep the
 * present spec. The view must have a Device. *ret is overwritten. */
void device_spec_draft(const struct node_view *v, const char *const *waiting, size_t n_waiting,
                       struct spec_draft *ret);
void spec_draft_done(struct spec_draft *d);
AUTO_DEFINE(spec_draft, struct spec_draft, spec_draft_done)
#define auto_spec_draft AUTO(spec_draft)

/* True when the Device's owner reference names the Node of the view. */
bool device_spec_is_owned(const struct node_view *v);
/* The body to apply, or NULL when the Device already holds all of it. New reference. */
json_t *device_spec_body(const struct node_view *v, const struct spec_draft *d);
/* True when the Device has no field of ours beyond `body`. Fields of other managers may stay where
 * body has nothing. */
bool device_spec_says_only(const json_t *device, const json_t *body);
