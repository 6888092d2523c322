/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/*
 * A Node's labels: nvidia.com/mig.config.state, which is mig-manager's answer to
 * nvidia.com/mig.config (NVIDIA/mig-parted cmd/nvidia-mig-manager), and the labels with which the
 * node's agent describes its GPUs (api/feature_label.h). Pure; reconcilers/node.c writes them.
 */

/* The value for nvidia.com/mig.config.state, with its reason. */
struct label_state {
    const char *value; /* one of api/kinds.h; NULL: the node has no label nvidia.com/mig.config */
    char *reason, *message; /* owned; NULL when nothing is wrong */
};
/* v must be resolved. *ret is overwritten. */
void node_labels_state(const struct node_view *v, struct label_state *ret);
void label_state_done(struct label_state *s);
AUTO_DEFINE(label_state, struct label_state, label_state_done)
#define auto_label_state AUTO(label_state)

/* All labels that the Node should have from us: a JSON object of strings. New reference. */
json_t *node_labels_wanted(const struct node_view *v, const char *state);
/* Number of the agent's labels that are left out, because a feature discovery writes them on this
 * Node. */
size_t node_labels_left(const struct node_view *v);
/* True when the Node has exactly these labels from our field manager. */
bool node_labels_stand(const struct node_record *node, json_t *wanted);
