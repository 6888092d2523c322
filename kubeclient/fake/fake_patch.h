/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* Patches, as an API server applies them; for the fake. Pure. */

/* RFC 7396. New reference. */
json_t *fake_merge_patch(const json_t *target, const json_t *patch);

/* RFC 6902 without copy and move. *doc is changed in place, and partly changed after an error.
 * ERR_INVALID: a missing path, a failed test, an unknown operation. */
int fake_json_patch(json_t **doc, const json_t *operations, struct err *e) MUST_CHECK;

/* The reverse of jansson's const-incorrect iterators: the same value, to be read only. */
json_t *fake_readable(const json_t *value);
