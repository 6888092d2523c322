/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/*
 * YAML as the Kubernetes world writes it, read into JSON values: YAML 1.2 core scalars (so `on` and
 * `yes` stay strings, as with kubectl's YAML → JSON for quoted keys), anchors expanded within a
 * bound, duplicate keys refused, merge keys not supported.
 */

/* All documents of a stream as a JSON array (empty documents left out). text is not NUL-terminated.
 * ERR_INVALID with line and column, ERR_TOO_LARGE. *ret is a new reference. */
int yaml_load_all(const char *text, size_t len, json_t **ret, struct err *e) MUST_CHECK;
/* Exactly one document. */
int yaml_load(const char *text, size_t len, json_t **ret, struct err *e) MUST_CHECK;
/* Block-style YAML of a JSON value, strings quoted where needed so that it reads back equal. Caller
 * frees. */
char *yaml_dump(const json_t *value);
