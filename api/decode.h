/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/jx.h"

/* Decodes the member `part` ("spec", "status") of an object into *ret of `bytes`, over the
 * defaults that *ret holds. An absent part counts as an empty one, whose required fields are
 * missing. On error everything is freed and *ret is zeroed. ERR_INVALID; the path begins with
 * .spec or .status. */
int api_decode_part(const json_t *obj, const char *part, const struct jx_field *fields, void *ret,
                    size_t bytes, struct err *e) MUST_CHECK;
