/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

/*
 * Hash map from strings to pointers: open addressing with tombstones, keys copied, FNV-1a mixed
 * with a random seed per map (a peer that chooses keys cannot make it quadratic, nor does copying
 * one map into another). Lookups O(1), memory about 40 bytes an entry and the key. Not thread-safe;
 * guard it with its owner's mutex. Iteration order is unspecified.
 */
struct strmap;

struct strmap *strmap_new(void);
/* The value, or NULL. Still owned by the caller of strmap_put. */
void *strmap_get(const struct strmap *m, const char *key);
/* Sets, returning the value that was replaced, or NULL. value must not be NULL. */
void *strmap_put(struct strmap *m, const char *key, void *value);
/* Removes, returning the value, or NULL. */
void *strmap_remove(struct strmap *m, const char *key);
size_t strmap_count(const struct strmap *m);
/* Walks: *pos starts at 0; false at the end. The current entry may be removed while walking,
 * nothing added. */
bool strmap_next(const struct strmap *m, size_t *pos, const char **ret_key, void **ret_value);
/* Frees the map, not the values. NULL allowed; returns NULL. */
struct strmap *strmap_free(struct strmap *m);

AUTO_DEFINE_PTR(strmap, struct strmap, strmap_free)
#define auto_strmap AUTO_PTR(strmap)
