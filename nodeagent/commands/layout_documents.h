/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* The objects of a file of layouts: documents of YAML, or of JSON one after the other, each an
 * object or a list of some. Pure. */

/* One object, which is no list; borrowed. An error ends the walk. */
typedef int layout_object_fn(void *arg, const json_t *doc, struct err *e);

/* Calls fn for each object, in their order. title: the file's name in messages. ERR_INVALID,
 * ERR_PROTOCOL, ERR_TOO_LARGE: it is neither YAML nor JSON, or too large; ERR_INVALID: a list in it
 * holds nothing; fn's errors, with the document and the item before them. *ret_n: how many documents
 * there are. */
int layout_documents_each(const char *title, const char *text, size_t len, layout_object_fn *fn,
                          void *arg, size_t *ret_n, struct err *e) MUST_CHECK;
