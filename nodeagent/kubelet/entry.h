/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * How devices get into a container: for the devices that the kubelet grants, what the runtime is
 * told. Pure values and functions; the answer to Allocate is made from them without looking at
 * anything.
 */

struct container_nodes;

/* Ways of telling, several at once are allowed (NVIDIA's names: deviceListStrategy). What a way
 * other than CDI says is each vendor's own (container_vendor.h). */
enum entry_way {
    ENTRY_CDI_CRI = 1 << 0,         /* "cdi-cri": names in the answer's cdi_devices */
    ENTRY_CDI_ANNOTATIONS = 1 << 1, /* "cdi-annotations": names in annotations */
    ENTRY_ENVVAR = 1 << 2,          /* "envvar": NVIDIA_VISIBLE_DEVICES, for NVIDIA's runtime */
    ENTRY_VOLUME_MOUNTS = 1 << 3,   /* "volume-mounts": the list as mounts, for NVIDIA's runtime */
};
#define ENTRY_ALL_CDI ((unsigned)(ENTRY_CDI_CRI | ENTRY_CDI_ANNOTATIONS))

/* A slice made with quotas, as it stands. */
struct entry_slice {
    unsigned id;    /* the driver's, on its card */
    unsigned minor; /* of a device node of its own; UINT_MAX: unknown */
    uint64_t memory_mib;
    unsigned compute_percent;
    char alias[36]; /* as the driver has it (SGPU_ALIAS_BYTES); "": none */
};

/* One whole card, partition, slice or virtual function, as the runtime has to know it. Replicas of
 * a device share one record (or have equal ones). */
struct entry_device {
    const char *vendor; /* "nvidia", "metax"; static */
    char *cdi_name;     /* entry_cdi_name: stable, says what it is */
    char *uuid;         /* as the driver names it today: GPU-… or MIG-… */
    char *card_uuid;    /* GPU-… */
    char *pci_bus_id;   /* of the card, or of the virtual function: 0000:05:00.0 */
    unsigned index;     /* of the card */
    unsigned minor;     /* /dev/nvidia<minor> */
    bool mig;
    unsigned gi_id, ci_id; /* whose capability devices go in; only with mig */
    /* The driver's index of the MIG device on its card (nvmlDeviceGetMigDeviceHandleByIndex); -1:
     * the driver did not report it. Only with mig. */
    int mig_index;
    bool has_slice;
    struct entry_slice slice; /* only with has_slice */
    bool is_vf;               /* a virtual function: to the runtime a card of its own */
    /* Nothing but a name (cdi_slot_name): what it means is decided when its pod is known, and said
     * in a CDI file of its own (cdi_slot.h). Not with mig or has_slice. */
    bool is_slot;
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
    char **cdi_names; /* fully qualified: "gpu.cleave.dev/<vendor>=<name>" */
    size_t n_cdi_names;
};

/* The answer for one container that gets these n devices, in their order; devices of one cdi_name
 * go in once. nodes says which device files there are; it is used where they go into the answer,
 * and NULL is ERR_UNAVAILABLE then. ERR_NOT_FOUND: a device whose files are not known, so that a
 * container could start and not use it. ERR_INVALID: devices of several vendors or of one that is
 * not known; a slot without CDI, or what the vendor's container cannot have together. *ret is to be
 * released with entry_done. Source: NVIDIA k8s-device-plugin internal/plugin/server.go. */
int entry_build(const struct entry_options *o, const struct container_nodes *nodes,
                const struct entry_device *const *devices, size_t n, struct entry *ret,
                struct err *e) MUST_CHECK;

/* Adds an environment variable, replacing one of the same key. */
void entry_add_env(struct entry *en, const char *key, const char *value);
/* Adds a mount. */
void entry_add_mount(struct entry *en, const char *container_path, const char *host_path,
                     bool read_only);
/* Adds a device file that lies below host_root on the host, unless it is there already. */
void entry_add_node(struct entry *en, const char *host_root, const char *path);

/* The name in the CDI spec: of a whole card its uuid, of a partition "<card
 * uuid>-<profile>-<start>" with '+' of the profile written as '.', as "GPU-…-1g.10gb.me-0". profile
 * NULL: a whole card. With ci_start >= 0 (a compute instance smaller than its GPU instance)
 * "-<ci_start>" follows. The same slice gets the same name each time it is made; no other slice of
 * the card has it. Caller frees. docs/adr/0007 says why it is neither the MIG uuid nor a number. */
char *entry_cdi_name(const char *card_uuid, const char *profile, unsigned start, int ci_start);
/* The same of a slice that stands: "<card uuid>-slice-<alias>". Caller frees. */
char *entry_cdi_slice_name(const char *card_uuid, const char *alias);

/* The same of a virtual function: "<card uuid>-vf-<number>". Caller frees. */
char *entry_cdi_vf_name(const char *card_uuid, unsigned number);

/* Frees what the record owns and makes it empty. */
/* *ret is freed with entry_device_done. */
void entry_device_copy(const struct entry_device *from, struct entry_device *ret);
void entry_device_done(struct entry_device *d);
/* Frees what the answer owns and makes it empty. */
void entry_done(struct entry *en);
AUTO_DEFINE(entry, struct entry, entry_done)
#define auto_entry AUTO(entry)
