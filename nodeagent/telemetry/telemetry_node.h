/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

#include "nodeagent/gpu/gpu.h"

/*
 * A node's cards as the page of telemetry names them: their labels, their GPU instances, and the
 * containers that have them. A copy for the sampler's thread; owned: telemetry_node_done.
 */
struct node_state;
struct checkpoint;

/* A container that has a card, a GPU instance, or a share of one of them. */
struct telemetry_holder {
    char *ns, *pod;
    char *container;      /* "": the pod has several there, and a cgroup names only the pod */
    char *uid;            /* the pod's; NULL: not known, so its processes are not known either */
    uint64_t share_bytes; /* memory of its shares of a card; 0: it has none */
};

/* A card, or a GPU instance. */
struct telemetry_place {
    int gi_id;                        /* -1: the card */
    char profile[MIG_NAME_BYTES];     /* of the GPU instance, the driver's name of it */
    bool is_shared;                   /* several may have it at the same time */
    struct telemetry_holder *holders; /* by name; where it is shared, a pod once */
    size_t n_holders;
};

struct telemetry_node_card {
    const char *vendor; /* static */
    char uuid[GPU_UUID_BYTES], model[GPU_NAME_BYTES], pci_bus_id[GPU_BUS_ID_BYTES];
    char driver[80];
    unsigned index, minor;
    double last_xid;                /* 0: none yet; NAN: its driver reports none */
    struct telemetry_place *places; /* the card, and then its GPU instances by their ids */
    size_t n_places;
};

struct telemetry_node {
    struct telemetry_node_card *cards;
    size_t n;
};

/* True for the cards that have DCGM's and HAMi's names: those of NVIDIA. */
bool telemetry_node_card_is_nvidia(const struct telemetry_node_card *c);

/* Builds the copy; cards without a UUID are left out. checkpoint: the kubelet's, which has the uids
 * of pods; NULL: not known. Pure. */
void telemetry_node_build(const struct node_state *s, const struct checkpoint *checkpoint,
                          struct telemetry_node *ret);
void telemetry_node_done(struct telemetry_node *n);
AUTO_DEFINE(telemetry_node, struct telemetry_node, telemetry_node_done)
#define auto_telemetry_node AUTO(telemetry_node)
