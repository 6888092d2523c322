/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/* Typed view of GPUProfile (crds/gpuprofiles.yaml). Same rules as api/device.h. */

enum api_operator { API_IN, API_NOT_IN, API_EXISTS, API_DOES_NOT_EXIST };
enum api_remainder { API_REMAINDER_UNCHANGED, API_REMAINDER_NATIVE };
enum api_taint { API_TAINT_NONE, API_TAINT_NO_SCHEDULE };

struct label_requirement {
    char *key;
    int op; /* enum api_operator */
    char **values;
    size_t n_values;
};

/* metav1.LabelSelector; empty selects everything. */
struct label_selector {
    struct jx_pair *match_labels;
    size_t n_match_labels;
    struct label_requirement *expressions;
    size_t n_expressions;
};

/* Selects cards of a node: all given fields must match. */
struct card_selector {
    char *vendor;
    char *model; /* glob with * and ?, case ignored */
    int64_t *indices;
    size_t n_indices;
    char **uuids;
    size_t n_uuids;
    char **pci_bus_ids;
    size_t n_pci_bus_ids;
    int64_t count; /* at most so many cards; 0: no limit */
};

struct gpuprofile_entry {
    struct card_selector selector;
    int mode; /* enum api_mode */
    bool has_mig;
    struct {
        bool has_profiles;
        struct jx_pair *profiles; /* profile name → count */
        size_t n_profiles;
        char *config; /* name of a MIGConfig or built-in; NULL when profiles is given */
    } mig;
    bool has_sgpu;
    struct device_sgpu sgpu;
    bool has_sharing;
    struct device_sharing sharing;
};

struct gpuprofile_rollout {
    char *max_unavailable; /* "1", "25%"; NULL: 1 */
    int drain;
    int64_t timeout_s; /* 0: 600 */
};

struct gpuprofile_health {
    int taint; /* enum api_taint */
};

struct gpuprofile_spec {
    struct label_selector node_selector;
    int64_t priority;
    bool paused;
    struct gpuprofile_entry *devices;
    size_t n_devices;
    int remainder; /* enum api_remainder */
    int mig_strategy;
    struct gpuprofile_rollout rollout;
    int failure_policy;
    struct gpuprofile_health health;
};

struct gpuprofile_failure {
    char *node, *reason, *message;
};

struct gpuprofile_status {
    int64_t observed_generation;
    bool has_nodes;
    struct {
        int64_t matched, up_to_date, progressing, failed;
    } nodes;
    struct gpuprofile_failure *failures;
    size_t n_failures;
    struct conditions conditions; /* Accepted, Ready, Reconciling, Stalled */
};

extern const struct jx_field gpuprofile_spec_fields[];
extern const struct jx_field gpuprofile_status_fields[];

/* The CRD's defaults are applied to absent fields, so that files read without an API server mean
 * the same. ERR_INVALID. */
int gpuprofile_spec_decode(const json_t *profile, struct gpuprofile_spec *ret,
                           struct err *e) MUST_CHECK;
int gpuprofile_status_decode(const json_t *profile, struct gpuprofile_status *ret,
                             struct err *e) MUST_CHECK;
json_t *gpuprofile_status_encode(const struct gpuprofile_status *s);
void gpuprofile_spec_done(struct gpuprofile_spec *s);
void gpuprofile_status_done(struct gpuprofile_status *s);
AUTO_DEFINE(gpuprofile_spec, struct gpuprofile_spec, gpuprofile_spec_done)
#define auto_gpuprofile_spec AUTO(gpuprofile_spec)
AUTO_DEFINE(gpuprofile_status, struct gpuprofile_status, gpuprofile_status_done)
#define auto_gpuprofile_status AUTO(gpuprofile_status)

/* True when the selector matches these labels (sorted or not). An absent key counts as in
 * Kubernetes. */
bool label_selector_matches(const struct label_selector *s, const struct jx_pair *labels,
                            size_t n_labels);
/* max_unavailable as a number of `matched` nodes: a number, or a percentage rounded up; at least 1.
 * ERR_INVALID. */
int gpuprofile_max_unavailable(const char *text, size_t matched, size_t *ret,
                               struct err *e) MUST_CHECK;
