/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "api/condition.h"

/*
 * Typed view of the Device resource (crds/devices.yaml; a test compares the tables with it). Plain
 * values that own their strings and arrays: device_spec_done and device_status_done free them.
 * Decoding is strict about types and bounds, and ignores unknown fields.
 */

#define MODE(name, word) API_MODE_##name,
enum api_mode {
#include "api/modes.def"
};
#undef MODE
enum api_drain { API_DRAIN_REFUSE, API_DRAIN_EVICT };
enum api_failure_policy { API_ROLLBACK, API_HOLD };
enum api_mig_strategy { API_STRATEGY_NONE, API_STRATEGY_SINGLE, API_STRATEGY_MIXED };
enum api_source_kind { API_SOURCE_NODE_LABEL, API_SOURCE_PROFILE };
enum api_qos_policy { API_BEST_EFFORT, API_FIXED_SHARE, API_BURST_SHARE };
enum api_publisher { API_PUBLISHER_KUBELET, API_PUBLISHER_CONTROLLER, API_PUBLISHER_OTHER };
/* What holds containers to their shares, the weakest first. */
enum api_level {
    API_LEVEL_NONE,
    API_LEVEL_LIBRARY,
    API_LEVEL_DRIVER,                 /* of memory */
    API_LEVEL_MPS = API_LEVEL_DRIVER, /* of compute */
};
enum api_memory_enforcement {
    API_MEMORY_AUTO,
    API_MEMORY_DRIVER,
    API_MEMORY_LIBRARY,
    API_MEMORY_NONE
};
enum api_compute_enforcement {
    API_COMPUTE_AUTO,
    API_COMPUTE_MPS,
    API_COMPUTE_LIBRARY,
    API_COMPUTE_NONE
};
enum api_on_exceed { API_EXCEED_REPORT, API_EXCEED_KILL };

/* The names of the enums above, NULL-terminated, in the enums' order. */
extern const char *const api_mode_names[];
extern const char *const api_drain_names[];
extern const char *const api_failure_policy_names[];
extern const char *const api_mig_strategy_names[];
extern const char *const api_publisher_names[];
extern const char *const api_qos_policy_names[];
extern const char *const api_memory_level_names[];
extern const char *const api_compute_level_names[];

/* A profile has 13 labels, and a card at most 18 profiles: room for two models with their
 * partitions. */
#define DEVICE_MAX_LABELS 512

/* Bytes of the message of a refused label. */
#define DEVICE_REFUSAL_BYTES 1024

/* Shares that the cards of one node have together at most, counting one for each card that nobody
 * shares. */
#define DEVICE_MAX_SHARES 1024

/* The schema's bounds for a card and for each of its partitions: users that the status names, and
 * containers that can have it at a time. */
#define DEVICE_MAX_CONSUMERS 64
#define DEVICE_MAX_REPLICAS  4096

/* The profile of a share among the partitions of a card. */
#define DEVICE_SHARE "share"

/* The reason of Ready on a node that was read and has no card; a profile counts such nodes apart. */
#define DEVICE_NO_CARDS "NoCards"

/* The source that governs a card. */
struct device_source {
    int kind; /* enum api_source_kind */
    char *name;
    int64_t generation;
};

struct device_rollout {
    int drain; /* enum api_drain */
    int64_t timeout_s;
};

/* How several containers share a card, or each of its partitions. */
struct device_replicas {
    int64_t replicas;
    bool rename_by_default; /* renames "nvidia.com/gpu" to "nvidia.com/gpu.shared" */
    /* Because a second replica gives a container no more of the device. */
    bool fail_requests_greater_than_one;
};

/* The enforcement that shares ask for: what holds containers to them. Absent: auto. */
struct device_enforcement {
    bool has_memory, has_compute;
    int memory;  /* enum api_memory_enforcement */
    int compute; /* enum api_compute_enforcement */
};

/* How a whole card is given out in shares. */
struct device_fractional {
    int64_t max_shares;
    /* For all shares together, of the card's own; above 100: more than there is. */
    int64_t memory_percent, compute_percent;
    bool has_enforcement, has_qos_policy, has_on_exceed;
    struct device_enforcement enforcement;
    int qos_policy; /* enum api_qos_policy */
    int on_exceed;  /* enum api_on_exceed */
    bool allow_disable;
};

/* At most one of the three. */
struct device_sharing {
    bool has_time_slicing;
    struct device_replicas time_slicing;
    bool has_mps; /* through NVIDIA's MPS: equal parts of memory and threads */
    struct device_replicas mps;
    bool has_fractional;
    struct device_fractional fractional;
};

/* A profile ("1g.10gb") and a count. */
struct profile_count {
    char *profile;
    int64_t count;
};

/* Slices of one kind. With a count above 1 they are named alias-0, alias-1, …. */
struct device_slice_want {
    char *alias;
    int64_t memory_mib, compute_percent;
    int64_t count; /* 0: 1 */
};

/* How a card is divided into slices with quotas (MetaX sGPU). */
struct device_sgpu {
    /* False: best effort, or, where slices are made for pods, each pod's own. */
    bool has_qos_policy;
    int qos_policy;       /* enum api_qos_policy; for the whole card */
    int64_t timeslice_ms; /* for the whole card; 0: the present length stays */
    struct device_slice_want *slices;
    size_t n_slices; /* 0: slices are made for each pod as it comes */
};

/* The want of one card. */
struct device_want {
    char *uuid;
    int mode; /* enum api_mode */
    bool has_source;
    struct device_source source;
    bool has_rollout;
    struct device_rollout rollout;
    int failure_policy; /* enum api_failure_policy */
    bool has_mig;
    struct {
        struct profile_count *profiles;
        size_t n_profiles;
    } mig;
    bool has_sgpu;
    struct device_sgpu sgpu;
    bool has_sharing;
    struct device_sharing sharing;
};

/* The value of the node's label nvidia.com/mig.config that was refused, and why. */
struct device_refused_label {
    char *value, *reason, *message;
};

struct device_spec {
    bool has_refused_label; /* false: there is no label, or it can be followed */
    struct device_refused_label refused_label;
    bool has_source;
    struct device_source source;
    int mig_strategy; /* enum api_mig_strategy */
    bool has_rollout;
    struct device_rollout rollout;
    int failure_policy;
    char *withdrawn; /* status.withdrawal, once the Node was written from that status; NULL: none */
    struct device_want *devices; /* by uuid, ascending */
    size_t n_devices;
};

struct device_driver {
    char *vendor, *version, *library_version, *cuda_version;
};

struct device_engines {
    int64_t copy, decoder, encoder, jpeg, ofa;
};

struct device_mig_profile {
    char *name;
    int64_t id, slices, memory_mib, max_count, multiprocessors;
    bool has_engines;
    struct device_engines engines;
    int64_t size;    /* memory slices of one partition */
    int64_t *starts; /* first memory slices of its possible placements */
    size_t n_starts;
};

/* One model of card with its MIG profiles. */
struct device_model {
    char *name;
    int64_t mig_memory_slices;
    struct device_mig_profile *mig_profiles;
    size_t n_mig_profiles;
};

/* A consumer of a card or partition: a process, a pod, or both. */
struct device_consumer {
    int64_t pid;
    char *process;
    char *namespace, *name, *uid, *container;
};

/* Why a partition must not be used although its card may. */
struct device_illness {
    char *reason, *message;
};

/* A breach: a share's container goes beyond the share. */
struct device_breach {
    int64_t since_ms; /* wall clock */
    char *reason, *message;
};

/* A slice, or a share, with its quotas. */
struct device_slice {
    int64_t id; /* of a slice: the driver's id */
    char *alias;
    int64_t memory_mib, compute_percent;
    bool foreign; /* not made by Cleave */
};

/* A virtual function of a card. */
struct device_vf {
    int64_t index; /* its number behind the card's own function, from 0 */
    char *pci_bus_id;
    int64_t memory_mib; /* 0: unknown */
};

struct device_partition {
    char *uuid, *profile;
    bool has_gi_id; /* false: a slice or a virtual function */
    int64_t gi_id;
    bool has_ci_id; /* false: a GPU instance without compute instances, or not MIG */
    int64_t ci_id;
    char *placement; /* "start:size" in memory slices, as nvidia-smi mig -lgi prints it */
    bool has_slice;
    struct device_slice slice;
    bool has_vf;
    struct device_vf vf;
    int64_t replicas; /* as the card's */
    bool in_use;
    struct device_consumer *in_use_by;
    size_t n_in_use_by;
    bool has_unhealthy;
    struct device_illness unhealthy;
    bool has_breach;
    struct device_breach breach;
};

/* The drain of a card that must become free before it can change. */
struct device_drain {
    int64_t since_ms, deadline_ms; /* wall clock; deadline 0: none */
    bool card;                     /* the whole card must become free */
    char **partitions;             /* uuids of the partitions that must become free */
    size_t n_partitions;
};

/* The sGPU state of a card. */
struct device_sgpu_state {
    int64_t memory_mib; /* available for all its slices */
    int qos_policy;
    int64_t timeslice_ms;
};

/* What a card has for all its shares. */
struct device_fractional_state {
    int64_t memory_mib, compute_percent; /* oversubscription included; 100 %: the card's own */
    int64_t max_shares;
    int memory, compute; /* enum api_level: in force for all shares of the card */
};

/* The status of one card. */
struct device_card {
    char *uuid;
    int64_t index;
    bool has_minor;
    int64_t minor;
    char *vendor, *model, *pci_bus_id, *pci_device_id, *pci_subsystem_id, *pcie_root;
    int64_t *linked_with; /* indexes of the same vendor's cards that links join it to */
    size_t n_linked_with;
    int64_t numa_node, memory_mib;
    bool healthy, mig_capable;
    int mode;
    bool has_pending_mode;
    int pending_mode;
    int64_t replicas; /* by time slicing or MPS, of the whole card; 0: it is not offered so */
    bool in_use;
    struct device_consumer *in_use_by;
    size_t n_in_use_by;
    struct device_partition *partitions; /* and shares */
    size_t n_partitions;
    bool has_sgpu;
    struct device_sgpu_state sgpu;
    bool has_fractional;
    struct device_fractional_state fractional;
    bool has_drain;
    struct device_drain drain;
    struct conditions conditions; /* Applied; Healthy only while it is not True */
};

struct device_resource {
    char *name;
    int64_t count;
    int publisher; /* enum api_publisher */
};

struct device_summary {
    int64_t gpus, partitions, in_use;
    char *models, *layout;
};

struct device_status {
    int64_t observed_generation;
    char *agent_version, *boot_id;
    /* The agent waits until the Node offers no more than this status, and spec.withdrawn is this
     * text; NULL: it waits for nothing. */
    char *withdrawal;
    bool has_summary;
    struct device_summary summary;
    struct device_driver *drivers;
    size_t n_drivers;
    struct device_model *models;
    size_t n_models;
    struct device_card *devices;
    size_t n_devices;
    struct device_resource *resources;
    size_t n_resources;
    struct jx_pair *labels; /* labels that describe the GPUs, for the Node; sorted by key */
    size_t n_labels;
    struct conditions conditions; /* Ready, Reconciling, Stalled */
};

extern const struct jx_field device_spec_fields[];
extern const struct jx_field device_sharing_fields[];
extern const struct jx_field device_sgpu_fields[];
extern const struct jx_field device_status_fields[];

/* Decodes .spec (absent: all empty) or .status of a Device. A card's entry without source, rollout
 * or failure policy gets the spec's; encoding leaves out what is equal to the spec's. On error *ret
 * is freed and zeroed. ERR_INVALID with the path. */
int device_spec_decode(const json_t *device, struct device_spec *ret, struct err *e) MUST_CHECK;
int device_status_decode(const json_t *device, struct device_status *ret, struct err *e) MUST_CHECK;
/* The value of .spec or .status. New reference. */
json_t *device_spec_encode(const struct device_spec *s);
json_t *device_status_encode(const struct device_status *s);

void device_spec_done(struct device_spec *s);
void device_status_done(struct device_status *s);
AUTO_DEFINE(device_spec, struct device_spec, device_spec_done)
#define auto_device_spec AUTO(device_spec)
AUTO_DEFINE(device_status, struct device_status, device_status_done)
#define auto_device_status AUTO(device_status)

/* A deep copy, for a want that device_spec_done frees. */
void device_sgpu_copy(const struct device_sgpu *from, struct device_sgpu *to);

/* A condition that is bad when it is True; the others are good then. */
bool device_condition_is_negative(const char *type);

/* Fills in what a decoded sharing leaves out, with the schema's defaults. */
void device_sharing_complete(struct device_sharing *s);

/* Replicas and terms, by time-slicing or MPS; NULL: there are no replicas, since the card is not
 * shared, or is given out in shares. Borrowed. */
const struct device_replicas *device_sharing_terms(const struct device_sharing *s);

/* A deep copy, freed with device_status_done; empty when `from` holds more than the schema
 * allows. */
void device_status_copy(const struct device_status *from, struct device_status *ret);

/* The card's want in the spec, by uuid; NULL: the spec has none. The spec may be NULL. Borrowed. */
const struct device_want *device_spec_want(const struct device_spec *s, const char *uuid);

/* The card's status, by uuid; NULL: none. Borrowed. */
const struct device_card *device_status_card(const struct device_status *s, const char *uuid);
const struct device_model *device_status_model(const struct device_status *s, const char *name);
