/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gpuprofile.h"

#include <string.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "api/decode.h"
#include "api/mig_limits.h"

/* Bytes of a wrong value in a message. */
enum { MAX_UNAVAILABLE_SHOWN = 64 };

static const char *const operator_names[] = {[API_IN] = "In",
                                             [API_NOT_IN] = "NotIn",
                                             [API_EXISTS] = "Exists",
                                             [API_DOES_NOT_EXIST] = "DoesNotExist",
                                             NULL};
static const char *const remainder_names[] =
    {[API_REMAINDER_UNCHANGED] = "unchanged", [API_REMAINDER_NATIVE] = "native", NULL};
static const char *const taint_names[] = {"None", "NoSchedule", NULL};

/* A member cannot stand in brackets. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define IN_BLOCK(S, block, m) (offsetof(struct S, block.m) - offsetof(struct S, block))

static const struct jx_field requirement_fields[] = {
    JX_F(label_requirement, key, "key", JX_STR, .required = true, .min = 1, .max = 317),
    JX_F(label_requirement, op, "operator", JX_ENUM, .required = true, .choices = operator_names),
    JX_L(label_requirement, values, n_values, "values", JX_STR_LIST, .max = 256),
    {0},
};

static const struct jx_field node_selector_fields[] = {
    JX_L(label_selector, match_labels, n_match_labels, "matchLabels", JX_STR_MAP, .max = 32),
    JX_L(label_selector, expressions, n_expressions, "matchExpressions", JX_LIST,
         .sub = requirement_fields, .elem_bytes = sizeof(struct label_requirement), .max = 32),
    {0},
};

static const struct jx_field card_selector_fields[] = {
    JX_F(card_selector, vendor, "vendor", JX_STR),
    JX_F(card_selector, model, "model", JX_STR, .min = 1, .max = 96),
    JX_L(card_selector, indices, n_indices, "indices", JX_INT_LIST, .min = 1, .max = 64),
    JX_L(card_selector, uuids, n_uuids, "uuids", JX_STR_LIST, .min = 1, .max = 256),
    JX_L(card_selector, pci_bus_ids, n_pci_bus_ids, "pciBusIDs", JX_STR_LIST, .min = 1, .max = 64),
    JX_F(card_selector, count, "count", JX_INT, .min = 1, .max = 64),
    {0},
};

static const struct jx_field entry_mig_fields[] = {
    {
        .name = "profiles",
        .type = JX_INT_MAP,
        .offset = IN_BLOCK(gpuprofile_entry, mig, profiles),
        .count_offset = IN_BLOCK(gpuprofile_entry, mig, n_profiles),
        .present_offset = IN_BLOCK(gpuprofile_entry, mig, has_profiles),
        .max = MIG_MAX_WANTS,
    },
    {
        .name = "config",
        .type = JX_STR,
        .offset = IN_BLOCK(gpuprofile_entry, mig, config),
        .present_offset = JX_NO_OFFSET,
        .min = 1,
        .max = 253,
    },
    {0},
};

static const struct jx_field entry_fields[] = {
    JX_F(gpuprofile_entry, selector, "selector", JX_OBJECT, .sub = card_selector_fields),
    JX_F(gpuprofile_entry, mode, "mode", JX_ENUM, .required = true, .choices = api_mode_names),
    JX_P(gpuprofile_entry, mig, has_mig, "mig", JX_OBJECT, .sub = entry_mig_fields),
    JX_P(gpuprofile_entry, sgpu, has_sgpu, "sgpu", JX_OBJECT, .sub = device_sgpu_fields),
    JX_P(gpuprofile_entry, sharing, has_sharing, "sharing", JX_OBJECT,
         .sub = device_sharing_fields),
    {0},
};

static const struct jx_field rollout_fields[] = {
    JX_F(gpuprofile_rollout, max_unavailable, "maxUnavailable", JX_INT_OR_STR),
    JX_F(gpuprofile_rollout, drain, "drain", JX_ENUM, .choices = api_drain_names),
    JX_F(gpuprofile_rollout, timeout_s, "timeoutSeconds", JX_INT, .min = 1, .max = 86400),
    {0},
};

static const struct jx_field health_fields[] = {
    JX_F(gpuprofile_health, taint, "taint", JX_ENUM, .choices = taint_names),
    {0},
};

const struct jx_field gpuprofile_spec_fields[] = {
    JX_F(gpuprofile_spec, node_selector, "nodeSelector", JX_OBJECT, .sub = node_selector_fields,
         .required = true),
    JX_F(gpuprofile_spec, priority, "priority", JX_INT, .min = -1000000000, .max = 1000000000),
    JX_F(gpuprofile_spec, paused, "paused", JX_BOOL),
    JX_L(gpuprofile_spec, devices, n_devices, "devices", JX_LIST, .sub = entry_fields,
         .elem_bytes = sizeof(struct gpuprofile_entry), .min = 1, .max = 64, .required = true),
    JX_F(gpuprofile_spec, remainder, "remainder", JX_ENUM, .choices = remainder_names),
    JX_F(gpuprofile_spec, mig_strategy, "migStrategy", JX_ENUM, .choices = api_mig_strategy_names),
    JX_F(gpuprofile_spec, rollout, "rollout", JX_OBJECT, .sub = rollout_fields),
    JX_F(gpuprofile_spec, failure_policy, "failurePolicy", JX_ENUM,
         .choices = api_failure_policy_names),
    JX_F(gpuprofile_spec, health, "health", JX_OBJECT, .sub = health_fields),
    {0},
};

#define NODE_COUNT(js, m)                                                                          \
    {                                                                                              \
        .name = (js), .type = JX_INT, .required = true,                                            \
        .offset = IN_BLOCK(gpuprofile_status, nodes, m), .present_offset = JX_NO_OFFSET, .min = 0, \
        .max = INT32_MAX                                                                           \
    }
static const struct jx_field nodes_fields[] = {
    NODE_COUNT("matched", matched),
    NODE_COUNT("upToDate", up_to_date),
    NODE_COUNT("progressing", progressing),
    NODE_COUNT("failed", failed),
    {0},
};

static const struct jx_field failure_fields[] = {
    JX_F(gpuprofile_failure, node, "node", JX_STR, .required = true, .min = 1, .max = 253),
    JX_F(gpuprofile_failure, reason, "reason", JX_STR, .required = true, .min = 1, .max = 128),
    JX_F(gpuprofile_failure, message, "message", JX_STR, .max = 1024),
    {0},
};

const struct jx_field gpuprofile_status_fields[] = {
    JX_F(gpuprofile_status, observed_generation, "observedGeneration", JX_INT, .min = -1,
         .max = INT64_MAX),
    JX_P(gpuprofile_status, nodes, has_nodes, "nodes", JX_OBJECT, .sub = nodes_fields),
    JX_L(gpuprofile_status, failures, n_failures, "failures", JX_LIST, .sub = failure_fields,
         .elem_bytes = sizeof(struct gpuprofile_failure), .max = 16),
    JX_F(gpuprofile_status, conditions.items, "conditions", JX_LIST,
         .count_offset = offsetof(struct gpuprofile_status, conditions.count),
         .sub = condition_fields, .elem_bytes = sizeof(struct condition), .max = 16),
    {0},
};

/* The schema's rules again, for files that no API server has checked. */
static int check_sharing(const struct gpuprofile_spec *s, struct err *e)
{
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct gpuprofile_entry *entry = &s->devices[i];
        const struct device_sharing *sharing = &entry->sharing;
        if (!entry->has_sharing)
            continue;
        if (sharing->has_time_slicing + sharing->has_mps + sharing->has_fractional != 1)
            return err_set(e, ERR_INVALID,
                           ".spec.devices[%zu].sharing: give exactly one of timeSlicing, mps and "
                           "fractional",
                           i);
        if (sharing->has_fractional && entry->mode == API_MODE_MIG)
            return err_set(e, ERR_INVALID,
                           ".spec.devices[%zu].sharing.fractional: only a whole card is given out "
                           "in shares; choose mode native, or share the partitions by timeSlicing "
                           "or mps",
                           i);
        if (sharing->has_fractional && sharing->fractional.memory_percent > 100 &&
            sharing->fractional.enforcement.has_memory &&
            sharing->fractional.enforcement.memory == API_MEMORY_DRIVER)
            return err_set(e, ERR_INVALID,
                           ".spec.devices[%zu].sharing.fractional.memoryOversubscriptionPercent: "
                           "limits of the driver give out no more memory than there is; leave it "
                           "at 100, or choose another enforcement",
                           i);
    }
    return 0;
}

int gpuprofile_spec_decode(const json_t *profile, struct gpuprofile_spec *ret, struct err *e)
{
    *ret = (struct gpuprofile_spec){.mig_strategy = API_STRATEGY_MIXED, .rollout.timeout_s = 600};
    TRY(api_decode_part(profile, "spec", gpuprofile_spec_fields, ret, sizeof(*ret), e));
    for (size_t i = 0; i < ret->n_devices; i++)
        device_sharing_complete(&ret->devices[i].sharing);
    int rc = check_sharing(ret, e);
    if (rc < 0) {
        gpuprofile_spec_done(ret);
        *ret = (struct gpuprofile_spec){0};
    }
    return rc;
}

int gpuprofile_status_decode(const json_t *profile, struct gpuprofile_status *ret, struct err *e)
{
    *ret = (struct gpuprofile_status){0};
    return api_decode_part(profile, "status", gpuprofile_status_fields, ret, sizeof(*ret), e);
}

json_t *gpuprofile_status_encode(const struct gpuprofile_status *s)
{
    return jx_encode(gpuprofile_status_fields, s);
}

void gpuprofile_spec_done(struct gpuprofile_spec *s)
{
    jx_free(gpuprofile_spec_fields, s);
}

void gpuprofile_status_done(struct gpuprofile_status *s)
{
    jx_free(gpuprofile_status_fields, s);
}

static const char *label_value(const struct jx_pair *labels, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(labels[i].key, key) == 0)
            return labels[i].str;
    return NULL;
}

static bool among(const char *value, char *const *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i], value) == 0)
            return true;
    return false;
}

/* An absent key satisfies NotIn and DoesNotExist (apimachinery pkg/labels/selector.go). */
static bool requirement_holds(const struct label_requirement *r, const char *value)
{
    switch ((enum api_operator)r->op) {
    case API_IN:
        return value && among(value, r->values, r->n_values);
    case API_NOT_IN:
        return !value || !among(value, r->values, r->n_values);
    case API_EXISTS:
        return value;
    case API_DOES_NOT_EXIST:
        return !value;
    }
    return false;
}

bool label_selector_matches(const struct label_selector *s, const struct jx_pair *labels,
                            size_t n_labels)
{
    for (size_t i = 0; i < s->n_match_labels; i++) {
        const char *value = label_value(labels, n_labels, s->match_labels[i].key);
        if (!value || strcmp(value, s->match_labels[i].str) != 0)
            return false;
    }
    for (size_t i = 0; i < s->n_expressions; i++)
        if (!requirement_holds(&s->expressions[i],
                               label_value(labels, n_labels, s->expressions[i].key)))
            return false;
    return true;
}

int gpuprofile_max_unavailable(const char *text, size_t matched, size_t *ret, struct err *e)
{
    if (!text) {
        *ret = 1;
        return 0;
    }
    size_t len = strlen(text);
    bool percent = len && text[len - 1] == '%';
    auto_free char *digits = xstrndup(text, percent ? len - 1 : len);
    int64_t n;
    if (num_parse(digits, 1, percent ? 100 : 100000, &n, /* e= */ NULL) < 0)
        return err_set(e, ERR_INVALID,
                       ".spec.rollout.maxUnavailable is \"%.*s\"; it is a number of nodes from 1 "
                       "to 100000, or a share of them from \"1%%\" to \"100%%\"",
                       MAX_UNAVAILABLE_SHOWN, text);
    size_t count = percent ? (matched * (size_t)n + 99) / 100 : (size_t)n;
    *ret = count ? count : 1;
    return 0;
}
