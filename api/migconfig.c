/* SPDX-License-Identifier: Apache-2.0 */
#include "api/migconfig.h"

#include "api/decode.h"
#include "api/mig_limits.h"

/* A member cannot stand in brackets. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define IN_BLOCK(S, block, m) (offsetof(struct S, block.m) - offsetof(struct S, block))

static const struct jx_field entry_fields[] = {
    JX_L(migconfig_entry, filter, n_filter, "filter", JX_STR_LIST, .min = 1, .max = 64),
    JX_L(migconfig_entry, indices, n_indices, "indices", JX_INT_LIST, .min = 1, .max = 64),
    JX_F(migconfig_entry, mig_enabled, "migEnabled", JX_BOOL, .required = true),
    JX_L(migconfig_entry, mig_devices, n_mig_devices, "migDevices", JX_INT_MAP,
         .max = MIG_MAX_WANTS, .keep_zero = true /* {} is MIG mode without partitions */),
    {0},
};

const struct jx_field migconfig_spec_fields[] = {
    JX_L(migconfig_spec, aliases, n_aliases, "aliases", JX_STR_LIST, .max = 16),
    JX_L(migconfig_spec, devices, n_devices, "devices", JX_LIST, .sub = entry_fields,
         .elem_bytes = sizeof(struct migconfig_entry), .min = 1, .max = 64, .required = true),
    {0},
};

#define USED_BY(js, m)                                                                             \
    {                                                                                              \
        .name = (js), .type = JX_INT, .required = true,                                            \
        .offset = IN_BLOCK(migconfig_status, used_by, m), .present_offset = JX_NO_OFFSET,          \
        .min = 0, .max = INT32_MAX                                                                 \
    }
static const struct jx_field used_by_fields[] = {
    USED_BY("gpuProfiles", gpuprofiles),
    USED_BY("nodes", nodes),
    {0},
};

const struct jx_field migconfig_status_fields[] = {
    JX_F(migconfig_status, observed_generation, "observedGeneration", JX_INT, .min = -1,
         .max = INT64_MAX),
    JX_P(migconfig_status, used_by, has_used_by, "usedBy", JX_OBJECT, .sub = used_by_fields),
    JX_F(migconfig_status, conditions.items, "conditions", JX_LIST,
         .count_offset = offsetof(struct migconfig_status, conditions.count),
         .sub = condition_fields, .elem_bytes = sizeof(struct condition), .max = 16),
    {0},
};

int migconfig_spec_decode(const json_t *config, struct migconfig_spec *ret, struct err *e)
{
    *ret = (struct migconfig_spec){0};
    return api_decode_part(config, "spec", migconfig_spec_fields, ret, sizeof(*ret), e);
}

int migconfig_status_decode(const json_t *config, struct migconfig_status *ret, struct err *e)
{
    *ret = (struct migconfig_status){0};
    return api_decode_part(config, "status", migconfig_status_fields, ret, sizeof(*ret), e);
}

json_t *migconfig_spec_encode(const struct migconfig_spec *s)
{
    return jx_encode(migconfig_spec_fields, s);
}

json_t *migconfig_status_encode(const struct migconfig_status *s)
{
    return jx_encode(migconfig_status_fields, s);
}

void migconfig_spec_done(struct migconfig_spec *s)
{
    jx_free(migconfig_spec_fields, s);
}

void migconfig_status_done(struct migconfig_status *s)
{
    jx_free(migconfig_status_fields, s);
}
