/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/jx.h"

#include "api/condition.h"

/*
 * Typed view of Koordinator's Device (scheduling.koordinator.sh/v1alpha1, cluster-scoped, one for
 * each node, with the node's name), as koordlet writes it and koord-scheduler reads it (koordinator
 * apis/scheduling/v1alpha1/device_types.go, apis/extension/device_share.go). Its status has no
 * writer and is left alone. Plain values that own their strings and arrays.
 */

#define KOORDINATOR_GROUP   "scheduling.koordinator.sh"
#define KOORDINATOR_VERSION "v1alpha1"
#define KOORDINATOR_CRD     "devices." KOORDINATOR_GROUP

/* Labels of the Device. */
#define KOORDINATOR_LABEL_VENDOR "node.koordinator.sh/gpu-vendor"
#define KOORDINATOR_LABEL_MODEL  "node.koordinator.sh/gpu-model"
#define KOORDINATOR_LABEL_DRIVER "node.koordinator.sh/gpu-driver-version"
#define KOORDINATOR_LABEL_POLICY "node.koordinator.sh/gpu-partition-policy"
/* Annotation of the Device: the groups of cards that work well together, by size. */
#define KOORDINATOR_PARTITIONS "scheduling.koordinator.sh/gpu-partitions"

/* Resources of one card in a Device, and of all cards on a Node. */
#define KOORDINATOR_GPU    "koordinator.sh/gpu" /* of a Node with NVIDIA's cards */
#define KOORDINATOR_CORE   "koordinator.sh/gpu-core"
#define KOORDINATOR_MEMORY "koordinator.sh/gpu-memory"
#define KOORDINATOR_RATIO  "koordinator.sh/gpu-memory-ratio"
#define KOORDINATOR_SHARED "koordinator.sh/gpu.shared" /* of a Node */

/* Longest reason of a condition. */
#define KOORDINATOR_REASON_MAX 1024

struct koordinator_topology {
    int64_t socket_id, node_id; /* -1: unknown */
    char *pcie_id;              /* "pci0000:3a" */
    char *bus_id;               /* "0000:38:00.0" */
};

/* A virtual function. */
struct koordinator_vf {
    int64_t minor;
    char *bus_id;
};

struct koordinator_vf_group {
    struct jx_pair *labels;
    size_t n_labels;
    struct koordinator_vf *vfs;
    size_t n_vfs;
};

/* One device of a node. */
struct koordinator_device {
    char *type; /* "gpu" */
    char *id;
    bool has_minor, has_module_id;
    int64_t minor, module_id;
    bool health;
    struct jx_pair *labels;
    size_t n_labels;
    struct jx_pair *resources; /* quantities as text, sorted by name */
    size_t n_resources;
    bool has_topology;
    struct koordinator_topology topology;
    struct koordinator_vf_group *vf_groups;
    size_t n_vf_groups;
    struct conditions conditions; /* Healthy */
};

struct koordinator_spec {
    struct koordinator_device *devices;
    size_t n_devices;
};

extern const struct jx_field koordinator_spec_fields[];

/* Decodes .spec of a Device (absent: empty). On error *ret is zeroed. ERR_INVALID with the path. */
int koordinator_spec_decode(const json_t *device, struct koordinator_spec *ret,
                            struct err *e) MUST_CHECK;
/* The value of .spec. New reference. */
json_t *koordinator_spec_encode(const struct koordinator_spec *s);
void koordinator_spec_done(struct koordinator_spec *s);
AUTO_DEFINE(koordinator_spec, struct koordinator_spec, koordinator_spec_done)
#define auto_koordinator_spec AUTO(koordinator_spec)

/* True for a resource name that we publish for Koordinator. */
bool koordinator_is_resource(const char *name);

/* A text as the reason of a condition that the schema of Koordinator's Device accepts
 * (^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$, at most KOORDINATOR_REASON_MAX bytes). Illegal
 * characters are dropped and the next letter becomes a capital, so "ECC error" is "ECCError"; a
 * number gets "Error" in front. NULL, or when nothing is left: "Unknown". Caller frees. */
char *koordinator_reason(const char *text);
