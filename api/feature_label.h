/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The labels that describe a node's GPUs: their legal keys. The agent makes them
 * (nodeagent/report/gpu_labels.h) and the controller writes them to the Node. The controller
 * accepts no other key from an agent, so that a compromised node cannot label itself, for instance,
 * as a control plane.
 */

/* NVIDIA's GPU feature discovery (k8s-device-plugin internal/lm). A label about a resource begins
 * with the resource's name: FEATURE_GPU "count", FEATURE_MIG "1g.10gb" ".count". */
#define FEATURE_NVIDIA    "nvidia.com/"
#define FEATURE_GPU       "nvidia.com/gpu."
#define FEATURE_MIG       "nvidia.com/mig-"
#define FEATURE_TIMESTAMP "nvidia.com/gfd.timestamp"
#define FEATURE_MIG_CAP   "nvidia.com/mig.capable"
#define FEATURE_MIG_STRAT "nvidia.com/mig.strategy"
#define FEATURE_MPS_CAP   "nvidia.com/mps.capable"
#define FEATURE_VGPU      "nvidia.com/vgpu."
/* MetaX's operator (its gpu-label): "product", "driver.major". */
#define FEATURE_METAX "metax-tech.com/gpu."
/* node-feature-discovery: "pci-10de.present", "pci-0302_10de.present", the same with
 * ".sriov.capable". */
#define FEATURE_PCI "feature.node.kubernetes.io/pci-"
/* Our own labels, one set for each model: "NVIDIA-H100-80GB-HBM3.count", ".memory". */
#define FEATURE_MODEL "gpu.cleave.dev/"

/* The names after these prefixes, each list ended by NULL. The policy for the controller's writes
 * of Nodes has the same (config/admission/controller-node-status.yaml): a test compares them. */
extern const char *const feature_label_nvidia[];   /* FEATURE_NVIDIA */
extern const char *const feature_label_resource[]; /* nvidia.com/gpu, nvidia.com/mig-<profile> */
extern const char *const feature_label_metax[];    /* FEATURE_METAX */
extern const char *const feature_label_model[];    /* FEATURE_MODEL<model> */

/* True for a pair that may come from an agent: both are legal, and the key is one of the above. */
bool feature_label_allowed(const char *key, const char *value);
/* True for a key of a family that feature discovery writes. Wider than the above. */
bool feature_label_discovered(const char *key);
