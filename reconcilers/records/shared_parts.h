/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/jx.h"

#include "partition/resolve.h"

/*
 * Parts of a record that many records have in common, kept once (intern.h): texts, labels, counts
 * of profiles. A shared part is read only, is released by its own function here, and never by
 * free. Any thread; a record's parts belong to the thread that makes or frees the record.
 */

/* Replaces a text that the record owns by the shared one; NULL stays. */
void shared_text_make(char **text);
/* Releases a shared text and sets it to NULL. */
void shared_text_drop(char **text);
/* Either of the two, for a walk over all texts of a record. */
typedef void shared_text_fn(char **text);

/* The map of strings metadata.<map_name> of an object, sorted by key, every text shared; a value of
 * another type counts as "". The caller's (shared_pairs_free). */
struct jx_pair *shared_pairs_read(const json_t *obj, const char *map_name, size_t *ret_n);
void shared_pairs_free(struct jx_pair *pairs, size_t n);

/* Replaces a list of counts by one that all cards of the same layout share. The record also holds a
 * reference to each name in it, because the shared list cannot. */
void shared_counts_make(struct profile_count **list, size_t n);
/* Releases such a list and its names; it is empty then. */
void shared_counts_drop(struct profile_count **list, size_t *n);

/* The value of a label, or NULL. Borrowed. */
const char *records_label(const struct jx_pair *labels, size_t n, const char *key);
