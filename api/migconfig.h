/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/* Typed view of MIGConfig (crds/migconfigs.yaml). Same rules as api/device.h. */

struct migconfig_entry {
    char **filter; /* "0x233010DE" or "0x233010DE:0x16C110DE"; none: every model */
    size_t n_filter;
    int64_t *indices; /* none: all cards */
    size_t n_indices;
    bool mig_enabled;
    struct jx_pair *mig_devices; /* profile → count */
    size_t n_mig_devices;
};

struct migconfig_spec {
    char **aliases;
    size_t n_aliases;
    struct migconfig_entry *devices; /* the last entry that selects a card applies */
    size_t n_devices;
};

struct migconfig_status {
    int64_t observed_generation;
    bool has_used_by;
    struct {
        int64_t gpuprofiles, nodes;
    } used_by;
    struct conditions conditions; /* Accepted */
};

extern const struct jx_field migconfig_spec_fields[];
extern const struct jx_field migconfig_status_fields[];

/* Decodes .spec or .status of a MIGConfig. On error *ret is freed and zeroed. ERR_INVALID with the
 * path. */
int migconfig_spec_decode(const json_t *config, struct migconfig_spec *ret,
                          struct err *e) MUST_CHECK;
int migconfig_status_decode(const json_t *config, struct migconfig_status *ret,
                            struct err *e) MUST_CHECK;
/* The value of .spec or .status. New reference. */
json_t *migconfig_spec_encode(const struct migconfig_spec *s);
json_t *migconfig_status_encode(const struct migconfig_status *s);
void migconfig_spec_done(struct migconfig_spec *s);
void migconfig_status_done(struct migconfig_status *s);
AUTO_DEFINE(migconfig_spec, struct migconfig_spec, migconfig_spec_done)
#define auto_migconfig_spec AUTO(migconfig_spec)
AUTO_DEFINE(migconfig_status, struct migconfig_status, migconfig_status_done)
#define auto_migconfig_status AUTO(migconfig_status)
