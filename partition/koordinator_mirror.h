/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "api/koordinator.h"

/*
 * A node's cards as Koordinator is to see them: pure, and one for the controller, which writes
 * Koordinator's Device and the Node's resources, and for the agent, which writes koordlet's file.
 *
 * Koordinator tells devices of a node apart by type and minor alone, has one vendor in the labels
 * of a Device, and gives out whole cards and shares of cards. Hence:
 *   - of a node with cards of two vendors it sees those of one: of the vendor that the Node's label
 *     node.koordinator.sh/gpu-vendor names, else of the one with the most cards, else of the first
 *     by name;
 *   - it sees the cards that it can give out: of a vendor whose cards are sliced for their pods
 *     those in mode sgpu, of others the whole ones; none that is cut already (MIG, static slices);
 *   - a card that is about to be changed is not healthy to it: there is no other word for "not
 * now".
 */

/* Koordinator keeps a set of cards as bits of their minors in a signed number, and misreads the
 * sign (pkg/scheduler/plugins/deviceshare/allocator_gpu.go: "… > 0"). */
#define KOORDINATOR_MAX_CARDS 63

/* One card. Borrows everything; texts may be NULL. */
struct koordinator_card {
    const char *uuid, *vendor, *model, *pci_bus_id, *pcie_root;
    int64_t index, minor; /* minor -1: unknown */
    int64_t numa_node, memory_mib;
    int mode;       /* enum api_mode */
    bool cut;       /* partitions, or slices of a layout, stand on it */
    bool withdrawn; /* it is about to be changed */
    bool healthy;   /* not so: */
    const char *reason, *message;
    int64_t since_ms; /* wall clock; 0: not told */
    uint64_t linked;  /* bits: indexes of the cards that links of the vendor's own join it to */
};

/* All of a node. Borrows everything. */
struct koordinator_node {
    const struct koordinator_card *cards;
    size_t n_cards;
    const char *preferred_vendor;  /* NULL: none */
    const struct jx_pair *drivers; /* vendor → version of the driver */
    size_t n_drivers;
};

/* What of a Device is ours. Owned. */
struct koordinator_mirror {
    json_t *labels, *annotations; /* objects of strings */
    struct koordinator_spec spec; /* devices by minor */
    /* Of each device: bits of the places of those that it is joined to, and by what. */
    uint64_t linked[KOORDINATOR_MAX_CARDS];
    const char *link; /* static */
};

/* A model without what its vendor puts before each: "H100 80GB HBM3" of NVIDIA's, "C500" of
 * MetaX's. Borrowed from model. */
const char *koordinator_mirror_model(const char *vendor, const char *model);
/* Is there a card that Koordinator is to see? */
bool koordinator_mirror_has_cards(const struct koordinator_node *node);
/* The Device. Conditions whose status stands in `before` keep their time; others have that of the
 * card, or now. *ret is overwritten. */
void koordinator_mirror_build(const struct koordinator_node *node,
                              const struct koordinator_spec *before, int64_t now_ms,
                              struct koordinator_mirror *ret);
void koordinator_mirror_done(struct koordinator_mirror *m);
AUTO_DEFINE(koordinator_mirror, struct koordinator_mirror, koordinator_mirror_done)
#define auto_koordinator_mirror AUTO(koordinator_mirror)

/* Adds what the healthy cards come to on the Node to a list that the caller owns: koordinator.sh's
 * gpu-core, gpu-memory (bytes), gpu-memory-ratio and gpu.shared, and gpu for NVIDIA. Nothing when
 * there is none. */
void koordinator_mirror_resources(const struct koordinator_node *node,
                                  struct device_resource **list, size_t *n);
/* The same of the Device that stands, where it is somebody else's, with its label of a vendor
 * (NULL: none): as koord-manager computes them (pkg/slo-controller/noderesource/plugins/
 * gpudeviceresource, calculate). It writes the Node whenever this shows anything else; two that do
 * not agree would write for ever. */
void koordinator_mirror_resources_of(const struct koordinator_spec *device, const char *vendor,
                                     struct device_resource **list, size_t *n);
