/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/*
 * A Node's labels: nvidia.com/mig.config.state, mig-manager's answer to nvidia.com/mig.config
 * (NVIDIA/mig-parted cmd/nvidia-mig-manager), and those by which the node's agent describes its
 * GPUs (api/feature_label.h). Pure; reconcilers/node.h writes them.
 */

/* What the label's state should be, and why. */
struct label_state {
    const char *value;      /* of api/kinds.h; NULL: there is no label to answer */
    char *reason, *message; /* owned; NULL when all is well or nothing is to be said */
};
/* Of a resolved view. *ret is overwritten. */
void node_labels_state(const struct node_view *v, struct label_state *ret);
void label_state_done(struct label_state *s);
AUTO_DEFINE(label_state, struct label_state, label_state_done)
#define auto_label_state AUTO(label_state)

/* All labels that should stand: a JSON object of strings. New reference. */
json_t *node_labels_wanted(const struct node_view *v, const char *state);
/* How many of the agent's are not among them, because a feature discovery has them on this Node. */
size_t node_labels_left(const struct node_view *v);
/* Do exactly these stand, applied by us? */
bool node_labels_stand(const struct node_record *node, json_t *wanted);
