/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/jx.h"

#include "api/condition.h"

/*
 * metav1.Condition: a list map by type. lastTransitionTime changes only when the status flips, and
 * observedGeneration is always present. Plain values (api/condition.h); one thread.
 */

/* Sets the condition of this type, copying the strings. True when anything changed; a difference in
 * lastTransitionTime alone does not count. */
bool condition_set(struct conditions *l, const char *type, enum condition_status status,
                   const char *reason, const char *msg, int64_t generation, int64_t now_ms);
/* True when an API server takes this as a reason. */
bool condition_is_reason(const char *reason);
/* Removes it; true when it was there. */
bool condition_remove(struct conditions *l, const char *type);
/* Borrowed until the next change, or NULL. */
const struct condition *condition_get(const struct conditions *l, const char *type);
/* True when it is present and True. */
bool condition_is_true(const struct conditions *l, const char *type);

/* The convention of kstatus (sigs.k8s.io/cli-utils/pkg/kstatus): Ready for people, Reconciling and
 * Stalled for tools. Exactly one of the three is True; Reconciling and Stalled are removed when
 * they are not True. */
enum kstatus { KSTATUS_CURRENT, KSTATUS_IN_PROGRESS, KSTATUS_STALLED };
bool conditions_set_kstatus(struct conditions *l, enum kstatus state, const char *reason,
                            const char *msg, int64_t generation, int64_t now_ms);

/* Frees *dst and makes it a copy of src. */
void conditions_copy(struct conditions *dst, const struct conditions *src);
/* True when equal in everything, order and times included. */
bool conditions_equal(const struct conditions *a, const struct conditions *b);
/* The metav1.Condition array. New reference. */
json_t *conditions_to_json(const struct conditions *l);
/* Reads an array; NULL gives an empty list. Elements that are no conditions (no type, wrong types:
 * written by hand) are left out. *ret is overwritten. */
void conditions_from_json(const json_t *array, struct conditions *ret);
/* Frees the strings and the array; the list is empty afterwards. */
void conditions_done(struct conditions *l);

AUTO_DEFINE(conditions, struct conditions, conditions_done)
#define auto_conditions AUTO(conditions)
