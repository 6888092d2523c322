/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/jx.h"

/* metav1.Condition as plain values; service/conditions.h sets and reads lists of them. */
enum condition_status { CONDITION_FALSE, CONDITION_TRUE, CONDITION_UNKNOWN };

struct condition {
    char *type, *reason, *message; /* owned */
    int status;                    /* enum condition_status; an int for jx */
    int64_t observed_generation;
    int64_t last_transition_ms; /* wall clock, in the API's whole seconds */
};

struct conditions {
    struct condition *items;
    size_t count;
};

/* Field table of one element, for the tables of our kinds. */
extern const struct jx_field condition_fields[];
