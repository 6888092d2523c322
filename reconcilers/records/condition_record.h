/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "service/conditions.h"

/* The fields of a condition that the reconcilers read. */
struct condition_record {
    bool present;
    int status;             /* enum condition_status */
    char *reason, *message; /* NULL when absent */
};

/* Reads the condition of this type into *ret, which is zeroed; nothing when there is none. */
void condition_record_read(const struct conditions *list, const char *type,
                           struct condition_record *ret);
/* Frees the texts; for a record whose texts are its own (not shared). */
void condition_record_done(struct condition_record *c);
