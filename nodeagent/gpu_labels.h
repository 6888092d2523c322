/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/jx.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/host_facts.h"
#include "nodeagent/share.h"

/*
 * The labels that describe a node's GPUs, name for name and value for value what NVIDIA's GPU
 * feature discovery writes (k8s-device-plugin internal/lm and tests/expected-output*.txt), for
 * MetaX's cards what its operator's gpu-label does (developer.metax-tech.com), and
 * node-feature-discovery's for PCI devices. Pure. docs/labels.md lists them.
 *
 * Two models on one node share the keys of a resource; feature discovery lets chance decide which
 * one they speak of. Here the model with most of that resource's devices speaks (ties: the first by
 * name), and each model has a count and a memory of its own under gpu.cleave.dev/.
 *
 * Devices of one resource that are shared unequally: what is true of each of them is said, so the
 * fewest replicas.
 */

/* A card and what is wanted of it. Borrowed. */
struct gpu_labels_card {
    const struct gpu_card *card;    /* one that was never read is passed over */
    const struct device_want *want; /* NULL: nothing */
};

struct gpu_labels_input {
    const struct gpu_labels_card *cards; /* by index */
    size_t n_cards;
    const struct gpu_driver
        *drivers; /* of their vendors; of one that is not here nothing is told */
    size_t n_drivers;
    int mig_strategy; /* enum api_mig_strategy: the one asked for */
    /* The one by which partitions are offered (resource_strategy): mixed where single was asked for
     * and does not fit. */
    int strategy_in_force;
    const struct plugin_config *config; /* as share_of takes it */
    int publisher;                      /* enum api_publisher */
    const struct host_facts *host;      /* NULL: not read */
};

/* All labels but the timestamp, sorted by key: legal keys and values, each one that
 * feature_label_allowed lets through. *ret is the caller's (gpu_labels_free). */
void gpu_labels_build(const struct gpu_labels_input *in, struct jx_pair **ret, size_t *ret_n);

/* Adds nvidia.com/gfd.timestamp to labels that have none: the one of prev while nothing else
 * differs from prev, else now. Labels that say nothing of GPUs get none. */
void gpu_labels_stamp(struct jx_pair **labels, size_t *n, const struct jx_pair *prev, size_t n_prev,
                      int64_t now_s);

void gpu_labels_free(struct jx_pair *labels, size_t n);
