/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/jx.h"

#include "nodeagent/report/label_pool.h"

/*
 * The labels that describe a node's GPUs. Pure. docs/labels.md lists them. Sources, name for name
 * and value for value:
 *  - NVIDIA's GPU feature discovery (nvidia_labels.h);
 *  - for MetaX's cards, its operator's gpu-label (metax_labels.h);
 *  - for PCI devices, node-feature-discovery.
 *
 * Two models on one node share the label keys of a resource, and feature discovery lets chance
 * decide which one they describe. Here they describe the model with most devices of that resource
 * (ties: the first by name). Each model also has a count and a memory size of its own under
 * gpu.cleave.dev/.
 *
 * Where devices of one resource are shared unequally, the label gives what holds for each of them:
 * the fewest replicas.
 */

/* All labels except the timestamp, sorted by key. Keys and values are legal, and
 * feature_label_allowed allows each key. *ret is the caller's (gpu_labels_free). */
void gpu_labels_build(const struct gpu_labels_input *in, struct jx_pair **ret, size_t *ret_n);

/* Adds nvidia.com/gfd.timestamp: prev's while nothing else differs from prev, else now. Does
 * nothing when the labels have one already or describe no GPU. */
void gpu_labels_stamp(struct jx_pair **labels, size_t *n, const struct jx_pair *prev, size_t n_prev,
                      int64_t now_s);

void gpu_labels_free(struct jx_pair *labels, size_t n);
