/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/container/driver_files.h"

/*
 * The answer to Allocate: what the container runtime needs for the devices that the kubelet grants.
 * Pure values and functions; the answer is made from them without any I/O.
 */

/* The ways to name devices to the runtime; several may be combined (NVIDIA's names:
 * deviceListStrategy). The content in ways other than CDI is each vendor's own
 * (container_vendor.h). */
enum entry_way {
    ENTRY_CDI_CRI = 1 << 0,         /* "cdi-cri": names in the answer's cdi_devices */
    ENTRY_CDI_ANNOTATIONS = 1 << 1, /* "cdi-annotations": names in annotations */
    ENTRY_ENVVAR = 1 << 2,          /* "envvar": NVIDIA_VISIBLE_DEVICES, for NVIDIA's runtime */
    ENTRY_VOLUME_MOUNTS = 1 << 3,   /* "volume-mounts": the list as mounts, for NVIDIA's runtime */
};
#define ENTRY_ALL_CDI ((unsigned)(ENTRY_CDI_CRI | ENTRY_CDI_ANNOTATIONS))

/* An existing slice with its quotas. */
struct entry_slice {
    unsigned id;    /* the driver's, on its card */
    unsigned minor; /* its device node's; UINT_MAX: unknown */
    uint64_t memory_mib;
    uint64_t card_mib; /* of the whole card; 0: not said */
    unsigned compute_percent;
    char alias[36]; /* the driver's (SGPU_ALIAS_BYTES); "": none */
};

/* One whole card, partition, slice or virtual function, with what the runtime must know. Replicas
 * of a device share one record (or have equal ones). */
struct entry_device {
    const char *vendor; /* "nvidia", "metax"; static */
    char *cdi_name;     /* entry_cdi_name: stable and descriptive */
    char *uuid;         /* the driver's current one: GPU-… or MIG-… */
    char *card_uuid;    /* GPU-… */
    char *pci_bus_id;   /* the card's, or the virtual function's: 0000:05:00.0 */
    unsigned index;     /* the card's */
    unsigned minor;     /* /dev/nvidia<minor> */
    bool mig;
    unsigned gi_id, ci_id; /* whose capability devices are added; only with mig */
    /* The driver's index of the MIG device on its card (nvmlDeviceGetMigDeviceHandleByIndex); -1:
     * not reported. Only with mig. */
    int mig_index;
    bool has_slice;
    struct entry_slice slice; /* only with has_slice */
    bool is_vf;               /* a virtual function, which the runtime treats as a card */
    /* Only a slot's name (cdi_slot_name). What it stands for is decided when its pod is known, and
     * is in a CDI file of its own (cdi_slot.h). Not with mig or has_slice. */
    bool is_slot;
};

struct entry_options {
    unsigned ways;          /* or-ed enum entry_way */
    bool by_index;          /* deviceIDStrategy index: "0", "0:1" instead of uuids */
    bool pass_device_nodes; /* passDeviceSpecs: the answer lists the nodes too, unless all is CDI */
    /* With CDI alone: list the device files and give the vendor's variables too, for a runtime that
     * ignores CDI names. Not where it is known to heed them: the kubelet repeats the answer as long
     * as the pod lives, and a file that the device no longer has may be another's by then. */
    bool cdi_in_doubt;
    bool by_mark; /* with CDI alone: give marks for cleave-runtime too (grant_mark.h) */
    const struct driver_files *mounted; /* with CDI alone: the answer mounts these files, where
                                           nobody else brings them; NULL: it does not. Borrowed */
    const char *second_folder;          /* of these mounts (driver_mounts.h); NULL: the usual one */
    bool gds, mofed, gdrcopy;      /* NVIDIA_GDS, _MOFED, _GDRCOPY=enabled, unless all is CDI */
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

/* The Allocate answer for one container. Owned: entry_done. */
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

/* Adds an environment variable, replacing one of the same key. */
void entry_add_env(struct entry *en, const char *key, const char *value);
/* Adds a mount. */
void entry_add_mount(struct entry *en, const char *container_path, const char *host_path,
                     bool read_only);
/* Adds a device file that is below host_root on the host, unless it is in the list. */
void entry_add_node(struct entry *en, const char *host_root, const char *path);

/* The name in the CDI spec.
 *  - Whole card (profile NULL): its uuid.
 *  - Partition: "<card uuid>-<profile>-<start>", with '+' of the profile written as '.':
 *    "GPU-…-1g.10gb.me-0".
 *  - Compute instance smaller than its GPU instance (ci_start >= 0): "-<ci_start>" is appended.
 *
 * A partition made again at the same placement gets the same name; no other one of the card has it.
 * Caller frees. docs/adr/0007 says why it is neither the MIG uuid nor a number. */
char *entry_cdi_name(const char *card_uuid, const char *profile, unsigned start, int ci_start);
/* The name of an existing sGPU slice: "<card uuid>-slice-<alias>". Caller frees. */
char *entry_cdi_slice_name(const char *card_uuid, const char *alias);

/* The name of a virtual function: "<card uuid>-vf-<number>". Caller frees. */
char *entry_cdi_vf_name(const char *card_uuid, unsigned number);

/* A deep copy. Free *ret with entry_device_done. */
void entry_device_copy(const struct entry_device *from, struct entry_device *ret);
void entry_device_done(struct entry_device *d);
/* Frees its contents and makes it empty. */
void entry_done(struct entry *en);
AUTO_DEFINE(entry, struct entry, entry_done)
#define auto_entry AUTO(entry)
