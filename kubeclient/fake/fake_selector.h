/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* Selectors in the API's syntax; for the fake. Pure. */

/* True when obj's metadata.labels match "a=b,c!=d,e,!f,g in (h,i),j notin (k)"; NULL or "" always
 * match. ERR_INVALID for a malformed selector. */
int fake_labels_match(const char *selector, const json_t *obj, bool *ret, struct err *e) MUST_CHECK;

/* The same for "metadata.name=x,spec.nodeName!=y": metadata.name and metadata.namespace of every
 * kind, and of pods spec.nodeName and status.phase; others are ERR_INVALID, as on a server. */
int fake_fields_match(const char *selector, const char *plural, const json_t *obj, bool *ret,
                      struct err *e) MUST_CHECK;
