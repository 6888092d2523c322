/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

/*
 * How devices get into a container: for the devices that the kubelet grants, what the runtime is
 * told. Pure values and functions; the answer to Allocate is made from them without looking at
 * anything.
 */

/* Ways of telling, several at once are allowed (NVIDIA's names: deviceListStrategy). */
enum entry_way {
    ENTRY_CDI_CRI = 1 << 0,         /* "cdi-cri": names in the answer's cdi_devices */
    ENTRY_CDI_ANNOTATIONS = 1 << 1, /* "cdi-annotations": names in annotations */
    ENTRY_ENVVAR = 1 << 2,          /* "envvar": NVIDIA_VISIBLE_DEVICES, for NVIDIA's runtime */
    ENTRY_VOLUME_MOUNTS = 1 << 3,   /* "volume-mounts": the list as mounts, for NVIDIA's runtime */
};

/* One whole card or one partition, as the runtime has to know it. */
struct entry_device {
    char *cdi_name;   /* stable, says what it is: a card's uuid, or "<uuid>-1g.10gb.me-<start>" */
    char *uuid;       /* as the driver names it today: GPU-… or MIG-… */
    char *card_uuid;  /* GPU-… */
    unsigned index;   /* of the card */
    unsigned minor;   /* /dev/nvidia<minor> */
    bool mig;
    unsigned gi_id, ci_id; /* whose capability devices go in; only with mig */
    unsigned mig_index;    /* the driver's index of the MIG device on its card; only with mig */
};

struct entry_options {
    unsigned ways;         /* enum entry_way, or-ed */
    bool by_index;         /* deviceIDStrategy index: "0", "0:1" instead of uuids */
    bool pass_device_nodes; /* passDeviceSpecs: the nodes in the answer too */
    const char *annotation_prefix; /* NULL: "cdi.k8s.io/" */
};

struct entry_pair {
    char *key, *value;
};
struct entry_mount {
    char *container_path, *host_path;
    bool read_only;
};
struct entry_node {
    char *container_path, *host_path;
    char permissions[4]; /* "rw" */
};

/* What an Allocate answer says of one container. Owned: entry_done. */
struct entry {
    struct entry_pair *envs, *annotations;
    size_t n_envs, n_annotations;
    struct entry_mount *mounts;
    size_t n_mounts;
    struct entry_node *nodes;
    size_t n_nodes;
    char **cdi_names; /* fully qualified: "gpu.cleave.dev/nvidia=<name>" */
    size_t n_cdi_names;
};
void entry_done(struct entry *e);
void entry_device_done(struct entry_device *d);
AUTO_DEFINE(entry, struct entry, entry_done)
#define auto_entry AUTO(entry)

#define ENTRY_CDI_KIND "gpu.cleave.dev/nvidia"
