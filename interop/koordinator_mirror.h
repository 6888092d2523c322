/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "api/koordinator.h"

/*
 * A node's cards in the shape of Koordinator's Device. Pure, and shared by two writers: the
 * controller writes Koordinator's Device and the Node's resources, and the agent writes koordlet's
 * file.
 *
 * Koordinator identifies the devices of a node by type and minor only, has one vendor label for
 * each Device, and gives out whole cards and shares of cards. Hence:
 *
 * - On a node with cards of two vendors it is shown one vendor's: that of the Node's label
 *   node.koordinator.sh/gpu-vendor, else the one with the most cards, else the first by name.
 * - It is shown the cards that it can give out: those in mode sgpu of a vendor whose slices are
 *   made for their pods, and the whole cards of other vendors. It is shown no card that is divided
 *   already (MIG, static slices).
 * - A card that is about to be changed is shown as unhealthy: its API has no other way to say "not
 *   now".
 */

/* Koordinator keeps a set of cards as bits of their minors in a signed number, and misreads the
 * sign bit (pkg/scheduler/plugins/deviceshare/allocator_gpu.go: "… > 0"). */
#define KOORDINATOR_MAX_CARDS 63

/* One card. Borrows everything; texts may be NULL. */
struct koordinator_card {
    const char *uuid, *vendor, *model, *pci_bus_id, *pcie_root;
    int64_t index, minor; /* minor -1: unknown */
    int64_t numa_node, memory_mib;
    int mode;       /* enum api_mode */
    bool cut;       /* it has partitions, or slices of a layout */
    bool withdrawn; /* it is about to be changed */
    bool healthy;   /* when false, the next three say why */
    const char *reason, *message;
    int64_t since_ms; /* wall clock; 0: unknown */
    uint64_t linked;  /* bit set: indexes of the cards that the vendor's own links join it to */
};

/* All cards of a node. Borrows everything. */
struct koordinator_node {
    const struct koordinator_card *cards;
    size_t n_cards;
    const char *preferred_vendor;  /* NULL: none */
    const struct jx_pair *drivers; /* vendor → driver version */
    size_t n_drivers;
};

/* The parts of Koordinator's Device that we write. Owned. */
struct koordinator_mirror {
    json_t *labels, *annotations; /* objects of strings */
    struct koordinator_spec spec; /* devices by minor */
    /* For each device: the set of devices it is linked to, as bits of their positions in spec. */
    uint64_t linked[KOORDINATOR_MAX_CARDS];
    const char *link; /* name of the links; static */
};

/* The model without its vendor's prefix: "H100 80GB HBM3" for NVIDIA, "C500" for MetaX. Borrowed
 * from model. */
const char *koordinator_mirror_model(const char *vendor, const char *model);
/* True when Koordinator is to be shown at least one card. */
bool koordinator_mirror_has_cards(const struct koordinator_node *node);
/* Builds the Device. A condition whose status is the same in `before` keeps its time; another one
 * gets the card's time, or now. *ret is overwritten. */
void koordinator_mirror_build(const struct koordinator_node *node,
                              const struct koordinator_spec *before, int64_t now_ms,
                              struct koordinator_mirror *ret);
void koordinator_mirror_done(struct koordinator_mirror *m);
AUTO_DEFINE(koordinator_mirror, struct koordinator_mirror, koordinator_mirror_done)
#define auto_koordinator_mirror AUTO(koordinator_mirror)

/* Adds the sum of the healthy cards to a list that the caller owns: koordinator.sh's gpu-core,
 * gpu-memory (bytes), gpu-memory-ratio and gpu.shared, and for NVIDIA also gpu. Adds nothing when
 * there is none. */
void koordinator_mirror_resources(const struct koordinator_node *node,
                                  struct device_resource **list, size_t *n);
/* The same for a Device that another writer keeps, with its vendor label (NULL: none), computed as
 * koord-manager does (pkg/slo-controller/noderesource/plugins/gpudeviceresource, calculate).
 * koord-manager writes the Node whenever it differs from this; with another result, we and it would
 * overwrite each other for ever. */
void koordinator_mirror_resources_of(const struct koordinator_spec *device, const char *vendor,
                                     struct device_resource **list, size_t *n);
