/* SPDX-License-Identifier: Apache-2.0 */
#include "api/condition.h"

static const char *const status_names[] =
    {[CONDITION_FALSE] = "False", [CONDITION_TRUE] = "True", [CONDITION_UNKNOWN] = "Unknown", NULL};

const struct jx_field condition_fields[] = {
    JX_F(condition, type, "type", JX_STR, .required = true, .min = 1, .max = 316),
    JX_F(condition, status, "status", JX_ENUM, .required = true, .choices = status_names),
    JX_F(condition, observed_generation, "observedGeneration", JX_INT, .min = 0, .max = INT64_MAX),
    JX_F(condition, last_transition_ms, "lastTransitionTime", JX_TIME, .required = true),
    JX_F(condition, reason, "reason", JX_STR, .required = true, .min = 1, .max = 128),
    JX_F(condition, message, "message", JX_STR, .required = true, .max = 4096),
    {0},
};
