/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/*
 * YAML in Kubernetes' dialect, read into JSON values: YAML 1.2 core scalars (so `on` and `yes` stay
 * strings), keys always strings, anchors expanded within a bound, duplicate keys refused, nesting
 * at most JX_MAX_DEPTH. Merge keys, and tags beyond JSON's types, are not supported.
 */

/* The longest stream that is read: twice the largest object that an API server keeps (1.5 MiB,
 * etcd's --max-request-bytes). Bounded because libyaml needs up to 200 times a text's length in
 * memory. */
#define YAML_MAX_BYTES ((size_t)3 * 1024 * 1024)

/* All documents of a stream as a JSON array (empty documents left out). text is not NUL-terminated.
 * ERR_INVALID with line and column, ERR_TOO_LARGE. *ret is a new reference. */
int yaml_load_all(const char *text, size_t len, json_t **ret, struct err *e) MUST_CHECK;
/* ERR_INVALID with line and column where a stream has a word without quotes that is text here and a
 * boolean for kubectl, which reads YAML 1.1: `y`, `No`, `off`. What is no YAML is no error. */
int yaml_check_words(const char *text, size_t len, struct err *e) MUST_CHECK;
/* Exactly one document. */
int yaml_load(const char *text, size_t len, json_t **ret, struct err *e) MUST_CHECK;
/* Block-style YAML of a JSON value, keys in their order. Strings are quoted where a YAML 1.1 or 1.2
 * reader could read them as another type. Caller frees. */
char *yaml_dump(const json_t *value);
