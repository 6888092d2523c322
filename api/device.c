/* SPDX-License-Identifier: Apache-2.0 */
#include "api/device.h"

#include <string.h>

#include "base/xalloc.h"

#include "api/decode.h"
#include "api/mig_limits.h"

#define MODE(name, word) [API_MODE_##name] = #word,
const char *const api_mode_names[] = {
#include "api/modes.def"
    NULL,
};
#undef MODE
const char *const api_qos_policy_names[] = {[API_BEST_EFFORT] = "best-effort",
                                            [API_FIXED_SHARE] = "fixed-share",
                                            [API_BURST_SHARE] = "burst-share",
                                            NULL};
const char *const api_drain_names[] =
    {[API_DRAIN_REFUSE] = "refuseIfInUse", [API_DRAIN_EVICT] = "evict", NULL};
const char *const api_failure_policy_names[] =
    {[API_ROLLBACK] = "rollback", [API_HOLD] = "hold", NULL};
const char *const api_mig_strategy_names[] = {[API_STRATEGY_NONE] = "none",
                                              [API_STRATEGY_SINGLE] = "single",
                                              [API_STRATEGY_MIXED] = "mixed",
                                              NULL};
static const char *const source_kind_names[] =
    {[API_SOURCE_NODE_LABEL] = "NodeLabel", [API_SOURCE_PROFILE] = "GPUProfile", NULL};
const char *const api_publisher_names[] = {[API_PUBLISHER_KUBELET] = "kubelet",
                                           [API_PUBLISHER_CONTROLLER] = "controller",
                                           [API_PUBLISHER_OTHER] = "other",
                                           NULL};

const char *const api_memory_level_names[] = {[API_LEVEL_NONE] = "none",
                                              [API_LEVEL_LIBRARY] = "library",
                                              [API_LEVEL_DRIVER] = "driver",
                                              NULL};
const char *const api_compute_level_names[] =
    {[API_LEVEL_NONE] = "none", [API_LEVEL_LIBRARY] = "library", [API_LEVEL_MPS] = "mps", NULL};
static const char *const memory_enforcement_names[] = {[API_MEMORY_AUTO] = "auto",
                                                       [API_MEMORY_DRIVER] = "driver",
                                                       [API_MEMORY_LIBRARY] = "library",
                                                       [API_MEMORY_NONE] = "none",
                                                       NULL};
static const char *const compute_enforcement_names[] = {[API_COMPUTE_AUTO] = "auto",
                                                        [API_COMPUTE_MPS] = "mps",
                                                        [API_COMPUTE_LIBRARY] = "library",
                                                        [API_COMPUTE_NONE] = "none",
                                                        NULL};
static const char *const on_exceed_names[] =
    {[API_EXCEED_REPORT] = "report", [API_EXCEED_KILL] = "kill", NULL};

/* The schema's defaults; HAMi's deviceSplitCount is 10 too. */
enum { DEFAULT_SHARES = 10, DEFAULT_PERCENT = 100 };

/* The schema's bounds: shares of one card, and percent of a card for all its shares. */
enum { MAX_SHARES = 128, MIN_PERCENT = 100, MAX_PERCENT = 400 };

#define INT32    .min = 0, .max = INT32_MAX
#define REPLICAS .min = 2, .max = DEVICE_MAX_REPLICAS
#define INT64    .min = 0, .max = INT64_MAX
/* 16 TiB for a card, so that the sum over a node's cards still fits a number of bytes. */
#define MEMORY_MIB .min = 0, .max = MIG_MAX_MEMORY_MIB
#define LIST(S, m, js, fields, type, limit, ...)                                                   \
    JX_L(S, m, n_##m, js, JX_LIST, .sub = (fields), .elem_bytes = sizeof(type), .max = (limit),    \
         ##__VA_ARGS__)

static const struct jx_field source_fields[] = {
    JX_F(device_source, kind, "kind", JX_ENUM, .required = true, .choices = source_kind_names),
    JX_F(device_source, name, "name", JX_STR, .required = true, .min = 1, .max = 253),
    JX_F(device_source, generation, "generation", JX_INT, INT64),
    {0},
};

static const struct jx_field refused_label_fields[] = {
    JX_F(device_refused_label, value, "value", JX_STR, .required = true, .min = 1, .max = 63),
    JX_F(device_refused_label, reason, "reason", JX_STR, .required = true, .min = 1, .max = 64),
    JX_F(device_refused_label, message, "message", JX_STR, .required = true,
         .max = DEVICE_REFUSAL_BYTES),
    {0},
};

static const struct jx_field rollout_fields[] = {
    JX_F(device_rollout, drain, "drain", JX_ENUM, .choices = api_drain_names),
    JX_F(device_rollout, timeout_s, "timeoutSeconds", JX_INT, .min = 1, .max = 86400),
    {0},
};

static const struct jx_field profile_count_fields[] = {
    JX_F(profile_count, profile, "profile", JX_STR, .required = true, .min = 1, .max = 48),
    JX_F(profile_count, count, "count", JX_INT, .required = true, .min = 1, .max = 64),
    {0},
};

/* The blocks mig and sharing are anonymous structs inside struct device_want: their tables
 * count offsets from the block's own start. */
#define MIG_OFFSET(m) (offsetof(struct device_want, mig.m) - offsetof(struct device_want, mig))
static const struct jx_field want_mig_fields[] = {
    {
        .name = "profiles",
        .type = JX_LIST,
        .required = true,
        .offset = MIG_OFFSET(profiles),
        .count_offset = MIG_OFFSET(n_profiles),
        .present_offset = JX_NO_OFFSET,
        .elem_bytes = sizeof(struct profile_count),
        .sub = profile_count_fields,
        .max = MIG_MAX_WANTS,
    },
    {0},
};

static const struct jx_field time_slicing_fields[] = {
    JX_F(device_replicas, replicas, "replicas", JX_INT, .required = true, .min = 2, .max = 256),
    JX_F(device_replicas, rename_by_default, "renameByDefault", JX_BOOL),
    JX_F(device_replicas, fail_requests_greater_than_one, "failRequestsGreaterThanOne", JX_BOOL),
    {0},
};

/* MPS serves at most 48 clients of a device. */
static const struct jx_field mps_fields[] = {
    JX_F(device_replicas, replicas, "replicas", JX_INT, .required = true, .min = 2, .max = 48),
    JX_F(device_replicas, rename_by_default, "renameByDefault", JX_BOOL),
    JX_F(device_replicas, fail_requests_greater_than_one, "failRequestsGreaterThanOne", JX_BOOL),
    {0},
};

static const struct jx_field enforcement_fields[] = {
    JX_P(device_enforcement, memory, has_memory, "memory", JX_ENUM,
         .choices = memory_enforcement_names),
    JX_P(device_enforcement, compute, has_compute, "compute", JX_ENUM,
         .choices = compute_enforcement_names),
    {0},
};

static const struct jx_field fractional_fields[] = {
    JX_F(device_fractional, max_shares, "maxShares", JX_INT, .min = 1, .max = MAX_SHARES),
    JX_F(device_fractional, memory_percent, "memoryOversubscriptionPercent", JX_INT,
         .min = MIN_PERCENT, .max = MAX_PERCENT),
    JX_F(device_fractional, compute_percent, "computeOversubscriptionPercent", JX_INT,
         .min = MIN_PERCENT, .max = MAX_PERCENT),
    JX_P(device_fractional, enforcement, has_enforcement, "enforcement", JX_OBJECT,
         .sub = enforcement_fields),
    JX_P(device_fractional, qos_policy, has_qos_policy, "qosPolicy", JX_ENUM,
         .choices = api_qos_policy_names),
    JX_P(device_fractional, on_exceed, has_on_exceed, "onExceed", JX_ENUM,
         .choices = on_exceed_names),
    JX_F(device_fractional, allow_disable, "allowDisable", JX_BOOL),
    {0},
};

const struct jx_field device_sharing_fields[] = {
    JX_P(device_sharing, time_slicing, has_time_slicing, "timeSlicing", JX_OBJECT,
         .sub = time_slicing_fields),
    JX_P(device_sharing, mps, has_mps, "mps", JX_OBJECT, .sub = mps_fields),
    JX_P(device_sharing, fractional, has_fractional, "fractional", JX_OBJECT,
         .sub = fractional_fields),
    {0},
};

/* A card takes 16 slices. */
static const struct jx_field slice_want_fields[] = {
    JX_F(device_slice_want, alias, "alias", JX_STR, .required = true, .min = 1, .max = 22),
    JX_F(device_slice_want, memory_mib, "memoryMiB", JX_INT, .required = true, .min = 128,
         .max = 1 << 24),
    JX_F(device_slice_want, compute_percent, "computePercent", JX_INT, .min = 0, .max = 100),
    JX_F(device_slice_want, count, "count", JX_INT, .min = 1, .max = 16),
    {0},
};

const struct jx_field device_sgpu_fields[] = {
    JX_P(device_sgpu, qos_policy, has_qos_policy, "qosPolicy", JX_ENUM,
         .choices = api_qos_policy_names),
    JX_F(device_sgpu, timeslice_ms, "timesliceMilliseconds", JX_INT, .min = 1, .max = 10000),
    LIST(device_sgpu, slices, "slices", slice_want_fields, struct device_slice_want, 16),
    {0},
};

static const struct jx_field want_fields[] = {
    JX_F(device_want, uuid, "uuid", JX_STR, .required = true, .min = 1, .max = 96),
    JX_F(device_want, mode, "mode", JX_ENUM, .required = true, .choices = api_mode_names),
    JX_P(device_want, source, has_source, "source", JX_OBJECT, .sub = source_fields),
    JX_P(device_want, rollout, has_rollout, "rollout", JX_OBJECT, .sub = rollout_fields),
    JX_F(device_want, failure_policy, "failurePolicy", JX_ENUM,
         .choices = api_failure_policy_names),
    JX_P(device_want, mig, has_mig, "mig", JX_OBJECT, .sub = want_mig_fields),
    JX_P(device_want, sgpu, has_sgpu, "sgpu", JX_OBJECT, .sub = device_sgpu_fields),
    JX_P(device_want, sharing, has_sharing, "sharing", JX_OBJECT, .sub = device_sharing_fields),
    {0},
};

const struct jx_field device_spec_fields[] = {
    JX_P(device_spec, source, has_source, "source", JX_OBJECT, .sub = source_fields),
    JX_P(device_spec, refused_label, has_refused_label, "refusedLabel", JX_OBJECT,
         .sub = refused_label_fields),
    JX_F(device_spec, mig_strategy, "migStrategy", JX_ENUM, .choices = api_mig_strategy_names),
    JX_P(device_spec, rollout, has_rollout, "rollout", JX_OBJECT, .sub = rollout_fields),
    JX_F(device_spec, failure_policy, "failurePolicy", JX_ENUM,
         .choices = api_failure_policy_names),
    JX_F(device_spec, withdrawn, "withdrawn", JX_STR, .max = 48),
    LIST(device_spec, devices, "devices", want_fields, struct device_want, 64),
    {0},
};

static const struct jx_field driver_fields[] = {
    JX_F(device_driver, vendor, "vendor", JX_STR, .required = true, .min = 1, .max = 32),
    JX_F(device_driver, version, "version", JX_STR, .max = 80),
    JX_F(device_driver, library_version, "libraryVersion", JX_STR, .max = 80),
    JX_F(device_driver, cuda_version, "cudaVersion", JX_STR, .max = 16),
    {0},
};

static const struct jx_field engine_fields[] = {
    JX_F(device_engines, copy, "copy", JX_INT, INT32),
    JX_F(device_engines, decoder, "decoder", JX_INT, INT32),
    JX_F(device_engines, encoder, "encoder", JX_INT, INT32),
    JX_F(device_engines, jpeg, "jpeg", JX_INT, INT32),
    JX_F(device_engines, ofa, "ofa", JX_INT, INT32),
    {0},
};

/* The bounds of mig_table_check (partition/mig.h). */
static const struct jx_field mig_profile_fields[] = {
    JX_F(device_mig_profile, name, "name", JX_STR, .required = true, .min = 1, .max = 64),
    JX_F(device_mig_profile, id, "id", JX_INT, .required = true, INT32),
    JX_F(device_mig_profile, slices, "slices", JX_INT, .required = true, .min = 1,
         .max = MIG_MAX_SLICES),
    JX_F(device_mig_profile, memory_mib, "memoryMiB", JX_INT, MEMORY_MIB),
    JX_F(device_mig_profile, max_count, "maxCount", JX_INT, .required = true, .min = 0,
         .max = MIG_MAX_MEMORY_SLICES),
    JX_F(device_mig_profile, multiprocessors, "multiprocessors", JX_INT, .keep_zero = true, INT32),
    JX_P(device_mig_profile, engines, has_engines, "engines", JX_OBJECT, .sub = engine_fields),
    JX_F(device_mig_profile, size, "size", JX_INT, .required = true, .min = 0,
         .max = MIG_MAX_MEMORY_SLICES),
    JX_L(device_mig_profile, starts, n_starts, "starts", JX_INT_LIST, .max = MIG_MAX_PLACEMENTS),
    {0},
};

static const struct jx_field model_fields[] = {
    JX_F(device_model, name, "name", JX_STR, .required = true, .min = 1, .max = 96),
    JX_F(device_model, mig_memory_slices, "migMemorySlices", JX_INT, .min = 0,
         .max = MIG_MAX_MEMORY_SLICES),
    LIST(device_model, mig_profiles, "migProfiles", mig_profile_fields, struct device_mig_profile,
         MIG_MAX_PROFILES),
    {0},
};

static const struct jx_field consumer_fields[] = {
    JX_F(device_consumer, pid, "pid", JX_INT, .min = 1, .max = INT64_MAX),
    JX_F(device_consumer, process, "process", JX_STR, .max = 256),
    JX_F(device_consumer, namespace, "namespace", JX_STR, .max = 63),
    JX_F(device_consumer, name, "name", JX_STR, .max = 253),
    JX_F(device_consumer, uid, "uid", JX_STR, .max = 64),
    JX_F(device_consumer, container, "container", JX_STR, .max = 63),
    {0},
};

static const struct jx_field illness_fields[] = {
    JX_F(device_illness, reason, "reason", JX_STR, .required = true, .min = 1, .max = 64),
    JX_F(device_illness, message, "message", JX_STR, .max = 256),
    {0},
};

static const struct jx_field breach_fields[] = {
    JX_F(device_breach, since_ms, "since", JX_TIME, .required = true),
    JX_F(device_breach, reason, "reason", JX_STR, .required = true, .min = 1, .max = 64),
    JX_F(device_breach, message, "message", JX_STR, .max = 1024),
    {0},
};

static const struct jx_field slice_fields[] = {
    JX_F(device_slice, id, "id", JX_INT, .keep_zero = true, INT32),
    JX_F(device_slice, alias, "alias", JX_STR, .max = 32),
    JX_F(device_slice, memory_mib, "memoryMiB", JX_INT, .keep_zero = true, MEMORY_MIB),
    JX_F(device_slice, compute_percent, "computePercent", JX_INT, .keep_zero = true, .min = 0,
         .max = 100),
    JX_F(device_slice, foreign, "foreign", JX_BOOL),
    {0},
};

static const struct jx_field vf_fields[] = {
    JX_F(device_vf, index, "index", JX_INT, .required = true, .keep_zero = true, .min = 0,
         .max = 65535),
    JX_F(device_vf, pci_bus_id, "pciBusID", JX_STR, .max = 16),
    JX_F(device_vf, memory_mib, "memoryMiB", JX_INT, MEMORY_MIB),
    {0},
};

static const struct jx_field partition_fields[] = {
    JX_F(device_partition, uuid, "uuid", JX_STR, .required = true, .min = 1, .max = 96),
    JX_F(device_partition, profile, "profile", JX_STR, .min = 1, .max = 64),
    JX_P(device_partition, gi_id, has_gi_id, "giID", JX_INT, INT32),
    JX_P(device_partition, ci_id, has_ci_id, "ciID", JX_INT, INT32),
    JX_F(device_partition, placement, "placement", JX_STR, .max = 5),
    JX_P(device_partition, slice, has_slice, "slice", JX_OBJECT, .sub = slice_fields),
    JX_P(device_partition, vf, has_vf, "vf", JX_OBJECT, .sub = vf_fields),
    JX_F(device_partition, replicas, "replicas", JX_INT, REPLICAS),
    JX_F(device_partition, in_use, "inUse", JX_BOOL),
    LIST(device_partition, in_use_by, "inUseBy", consumer_fields, struct device_consumer,
         DEVICE_MAX_CONSUMERS),
    JX_P(device_partition, unhealthy, has_unhealthy, "unhealthy", JX_OBJECT, .sub = illness_fields),
    JX_P(device_partition, breach, has_breach, "breach", JX_OBJECT, .sub = breach_fields),
    {0},
};

static const struct jx_field drain_fields[] = {
    JX_F(device_drain, since_ms, "since", JX_TIME, .required = true),
    JX_F(device_drain, deadline_ms, "deadline", JX_TIME),
    JX_F(device_drain, card, "card", JX_BOOL),
    JX_L(device_drain, partitions, n_partitions, "partitions", JX_STR_LIST, .max = 64),
    {0},
};

#define CONDITIONS(S)                                                                              \
    JX_F(S, conditions.items, "conditions", JX_LIST,                                               \
         .count_offset = offsetof(struct S, conditions.count), .sub = condition_fields,            \
         .elem_bytes = sizeof(struct condition), .max = 16)

static const struct jx_field sgpu_state_fields[] = {
    JX_F(device_sgpu_state, memory_mib, "memoryMiB", JX_INT, .keep_zero = true, MEMORY_MIB),
    JX_F(device_sgpu_state, qos_policy, "qosPolicy", JX_ENUM, .choices = api_qos_policy_names),
    JX_F(device_sgpu_state, timeslice_ms, "timesliceMilliseconds", JX_INT, INT32),
    {0},
};

static const struct jx_field fractional_state_fields[] = {
    JX_F(device_fractional_state, memory_mib, "memoryMiB", JX_INT, .keep_zero = true, .min = 0,
         .max = (int64_t)MIG_MAX_MEMORY_MIB * MAX_PERCENT / 100),
    JX_F(device_fractional_state, max_shares, "maxShares", JX_INT, .keep_zero = true, .min = 0,
         .max = MAX_SHARES),
    JX_F(device_fractional_state, compute_percent, "computePercent", JX_INT, .keep_zero = true,
         .min = 0, .max = MAX_PERCENT),
    JX_F(device_fractional_state, memory, "memory", JX_ENUM, .choices = api_memory_level_names),
    JX_F(device_fractional_state, compute, "compute", JX_ENUM, .choices = api_compute_level_names),
    {0},
};

static const struct jx_field card_fields[] = {
    JX_F(device_card, uuid, "uuid", JX_STR, .required = true, .min = 1, .max = 96),
    JX_F(device_card, index, "index", JX_INT, .keep_zero = true, .min = 0, .max = 255),
    JX_P(device_card, minor, has_minor, "minor", JX_INT, INT32),
    JX_F(device_card, vendor, "vendor", JX_STR, .required = true, .min = 1, .max = 32),
    JX_F(device_card, model, "model", JX_STR, .max = 96),
    JX_F(device_card, pci_bus_id, "pciBusID", JX_STR, .max = 16),
    JX_F(device_card, pci_device_id, "pciDeviceID", JX_STR, .max = 10),
    JX_F(device_card, pci_subsystem_id, "pciSubsystemID", JX_STR, .max = 10),
    JX_F(device_card, pcie_root, "pcieRoot", JX_STR, .max = 15),
    JX_L(device_card, linked_with, n_linked_with, "linkedWith", JX_INT_LIST, .max = 64),
    JX_F(device_card, numa_node, "numaNode", JX_INT, .keep_zero = true, .min = -1,
         .max = INT32_MAX),
    JX_F(device_card, memory_mib, "memoryMiB", JX_INT, MEMORY_MIB),
    JX_F(device_card, healthy, "healthy", JX_BOOL, .keep_zero = true),
    JX_F(device_card, mig_capable, "migCapable", JX_BOOL, .keep_zero = true),
    JX_F(device_card, mode, "mode", JX_ENUM, .choices = api_mode_names),
    JX_P(device_card, pending_mode, has_pending_mode, "pendingMode", JX_ENUM,
         .choices = api_mode_names),
    JX_F(device_card, replicas, "replicas", JX_INT, REPLICAS),
    JX_F(device_card, in_use, "inUse", JX_BOOL),
    LIST(device_card, in_use_by, "inUseBy", consumer_fields, struct device_consumer,
         DEVICE_MAX_CONSUMERS),
    LIST(device_card, partitions, "partitions", partition_fields, struct device_partition,
         MAX_SHARES),
    JX_P(device_card, sgpu, has_sgpu, "sgpu", JX_OBJECT, .sub = sgpu_state_fields),
    JX_P(device_card, fractional, has_fractional, "fractional", JX_OBJECT,
         .sub = fractional_state_fields),
    JX_P(device_card, drain, has_drain, "drain", JX_OBJECT, .sub = drain_fields),
    CONDITIONS(device_card),
    {0},
};

static const struct jx_field resource_fields[] = {
    JX_F(device_resource, name, "name", JX_STR, .required = true, .min = 1, .max = 317),
    JX_F(device_resource, count, "count", JX_INT, .required = true, INT32),
    JX_F(device_resource, publisher, "publisher", JX_ENUM, .choices = api_publisher_names),
    {0},
};

static const struct jx_field summary_fields[] = {
    JX_F(device_summary, gpus, "gpus", JX_INT, .keep_zero = true, INT32),
    JX_F(device_summary, models, "models", JX_STR, .max = 512),
    JX_F(device_summary, layout, "layout", JX_STR, .max = 1024),
    JX_F(device_summary, partitions, "partitions", JX_INT, .keep_zero = true, INT32),
    JX_F(device_summary, in_use, "inUse", JX_INT, .keep_zero = true, INT32),
    {0},
};

const struct jx_field device_status_fields[] = {
    JX_F(device_status, observed_generation, "observedGeneration", JX_INT, INT64),
    JX_F(device_status, agent_version, "agentVersion", JX_STR, .max = 64),
    JX_F(device_status, boot_id, "bootID", JX_STR, .max = 64),
    JX_F(device_status, withdrawal, "withdrawal", JX_STR, .max = 48),
    JX_P(device_status, summary, has_summary, "summary", JX_OBJECT, .sub = summary_fields),
    LIST(device_status, drivers, "drivers", driver_fields, struct device_driver, 8),
    LIST(device_status, models, "models", model_fields, struct device_model, 16),
    LIST(device_status, devices, "devices", card_fields, struct device_card, 64),
    LIST(device_status, resources, "resources", resource_fields, struct device_resource, 64),
    JX_L(device_status, labels, n_labels, "labels", JX_STR_MAP, .max = DEVICE_MAX_LABELS),
    CONDITIONS(device_status),
    {0},
};

/* Fields that a card's entry leaves out are taken from the spec. */
static void inherit(struct device_spec *spec, struct device_want *want, const json_t *card)
{
    if (!json_object_get(card, "failurePolicy"))
        want->failure_policy = spec->failure_policy;
    if (!want->has_rollout && spec->has_rollout) {
        want->has_rollout = true;
        want->rollout = spec->rollout;
    }
    if (!want->has_source && spec->has_source) {
        want->has_source = true;
        want->source = spec->source;
        want->source.name = xstrdup(spec->source.name);
    }
}

int device_spec_decode(const json_t *device, struct device_spec *ret, struct err *e)
{
    *ret = (struct device_spec){.mig_strategy = API_STRATEGY_MIXED, .rollout.timeout_s = 600};
    TRY(api_decode_part(device, "spec", device_spec_fields, ret, sizeof(*ret), e));
    const json_t *cards = JX_AT(device, "spec", "devices");
    for (size_t i = 0; i < ret->n_devices; i++) {
        inherit(ret, &ret->devices[i], json_array_get(cards, i));
        device_sharing_complete(&ret->devices[i].sharing);
    }
    return 0;
}

int device_status_decode(const json_t *device, struct device_status *ret, struct err *e)
{
    *ret = (struct device_status){0};
    return api_decode_part(device, "status", device_status_fields, ret, sizeof(*ret), e);
}

json_t *device_spec_encode(const struct device_spec *s)
{
    static const char *const inherited[] = {"failurePolicy", "rollout", "source"};
    json_t *spec = jx_encode(device_spec_fields, s);
    size_t i;
    json_t *card;
    json_array_foreach(json_object_get(spec, "devices"), i, card) {
        for (size_t k = 0; k < ARRAY_LEN(inherited); k++)
            if (json_equal(json_object_get(card, inherited[k]),
                           json_object_get(spec, inherited[k])))
                (void)json_object_del(card, inherited[k]);
    }
    return spec;
}

json_t *device_status_encode(const struct device_status *s)
{
    return jx_encode(device_status_fields, s);
}

void device_spec_done(struct device_spec *s)
{
    jx_free(device_spec_fields, s);
}

void device_status_done(struct device_status *s)
{
    jx_free(device_status_fields, s);
}

void device_status_copy(const struct device_status *from, struct device_status *ret)
{
    auto_json json_t *json = device_status_encode(from);
    if (jx_decode(json, device_status_fields, ret, NULL) < 0)
        *ret = (struct device_status){0};
}

const struct device_want *device_spec_want(const struct device_spec *s, const char *uuid)
{
    for (size_t i = 0; s && i < s->n_devices; i++)
        if (strcmp(s->devices[i].uuid, uuid) == 0)
            return &s->devices[i];
    return NULL;
}

const struct device_card *device_status_card(const struct device_status *s, const char *uuid)
{
    for (size_t i = 0; i < s->n_devices; i++)
        if (strcmp(s->devices[i].uuid, uuid) == 0)
            return &s->devices[i];
    return NULL;
}

const struct device_model *device_status_model(const struct device_status *s, const char *name)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (strcmp(s->models[i].name, name) == 0)
            return &s->models[i];
    return NULL;
}

void device_sgpu_copy(const struct device_sgpu *from, struct device_sgpu *to)
{
    *to = *from;
    to->slices = NULL;
    to->n_slices = 0;
    for (size_t i = 0; i < from->n_slices; i++) {
        struct device_slice_want *slice = XPUSH(to->slices, to->n_slices);
        *slice = from->slices[i];
        slice->alias = xstrdup(slice->alias);
    }
}

static void complete(int64_t *value, int64_t fallback)
{
    if (!*value)
        *value = fallback;
}

bool device_condition_is_negative(const char *type)
{
    static const char *const list[] = {"RebootRequired", "Neighbours", "GrantsOutdated", "Stalled"};
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        if (strcmp(type, list[i]) == 0)
            return true;
    return false;
}

void device_sharing_complete(struct device_sharing *s)
{
    if (!s->has_fractional)
        return;
    complete(&s->fractional.max_shares, DEFAULT_SHARES);
    complete(&s->fractional.memory_percent, DEFAULT_PERCENT);
    complete(&s->fractional.compute_percent, DEFAULT_PERCENT);
}

const struct device_replicas *device_sharing_terms(const struct device_sharing *s)
{
    return s->has_mps ? &s->mps : s->has_time_slicing ? &s->time_slicing : NULL;
}
