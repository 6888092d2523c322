/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/jx.h"

/* metav1.Condition as a plain value. Strings are owned (condition lists are freed by jx_free). */
enum condition_status { CONDITION_UNKNOWN, CONDITION_TRUE, CONDITION_FALSE };

struct condition {
    char *type;
    int status; /* enum condition_status */
    int64_t observed_generation;
    int64_t last_transition_ms; /* wall clock, whole seconds as the API keeps them */
    char *reason;
    char *message;
};

struct condition_list {
    struct condition *items;
    size_t n;
};

/* jx table of one struct condition. */
extern const struct jx_field condition_fields[];
