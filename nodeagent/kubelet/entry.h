/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * How devices get into a container: for the devices that the kubelet grants, what the runtime is
 * told. Pure values and functions; the answer to Allocate is made from them without looking at
 * anything.
 */

struct device_nodes;

#define ENTRY_CDI_KIND "gpu.cleave.dev/nvidia"

/* Ways of telling, several at once are allowed (NVIDIA's names: deviceListStrategy). */
enum entry_way {
    ENTRY_CDI_CRI = 1 << 0,         /* "cdi-cri": names in the answer's cdi_devices */
    ENTRY_CDI_ANNOTATIONS = 1 << 1, /* "cdi-annotations": names in annotations */
    ENTRY_ENVVAR = 1 << 2,          /* "envvar": NVIDIA_VISIBLE_DEVICES, for NVIDIA's runtime */
    ENTRY_VOLUME_MOUNTS = 1 << 3,   /* "volume-mounts": the list as mounts, for NVIDIA's runtime */
};

/* One whole card or one partition, as the runtime has to know it. Replicas of a device share one
 * record (or have equal ones). */
struct entry_device {
    char *cdi_name;  /* entry_cdi_name: stable, says what it is */
    char *uuid;      /* as the driver names it today: GPU-… or MIG-… */
    char *card_uuid; /* GPU-… */
    unsigned index;  /* of the card */
    unsigned minor;  /* /dev/nvidia<minor> */
    bool mig;
    unsigned gi_id, ci_id; /* whose capability devices go in; only with mig */
    unsigned mig_index;    /* the driver's index of the MIG device on its card; only with mig */
};

struct entry_options {
    unsigned ways;            /* enum entry_way, or-ed */
    bool by_index;            /* deviceIDStrategy index: "0", "0:1" instead of uuids */
    bool pass_device_nodes;   /* passDeviceSpecs: the nodes in the answer too, unless all is CDI */
    bool gds, mofed, gdrcopy; /* NVIDIA_GDS, _MOFED, _GDRCOPY=enabled, unless all is CDI */
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

/* The answer for one container that gets these n devices, in their order; devices of one cdi_name
 * go in once. nodes says which device files there are; it is used with pass_device_nodes alone, and
 * NULL is ERR_UNAVAILABLE then. ERR_NOT_FOUND: a partition whose capability devices are not known,
 * so that a container could start and not use it. *ret is to be released with entry_done. Source:
 * NVIDIA k8s-device-plugin internal/plugin/server.go. */
int entry_build(const struct entry_options *o, const struct device_nodes *nodes,
                const struct entry_device *const *devices, size_t n, struct entry *ret,
                struct err *e) MUST_CHECK;

/* Adds an environment variable, replacing one of the same key. */
void entry_add_env(struct entry *en, const char *key, const char *value);
/* Adds a mount. */
void entry_add_mount(struct entry *en, const char *container_path, const char *host_path,
                     bool read_only);

/* The name in the CDI spec: of a whole card its uuid, of a partition "<card
 * uuid>-<profile>-<start>" with '+' of the profile written as '.', as "GPU-…-1g.10gb.me-0". profile
 * NULL: a whole card. With ci_start >= 0 (a compute instance smaller than its GPU instance)
 * "-<ci_start>" follows. The same slice gets the same name each time it is made; no other slice of
 * the card has it. Caller frees. docs/adr/0007 says why it is neither the MIG uuid nor a number. */
char *entry_cdi_name(const char *card_uuid, const char *profile, unsigned start, int ci_start);

/* Frees what the record owns and makes it empty. */
void entry_device_done(struct entry_device *d);
/* Frees what the answer owns and makes it empty. */
void entry_done(struct entry *en);
AUTO_DEFINE(entry, struct entry, entry_done)
#define auto_entry AUTO(entry)
