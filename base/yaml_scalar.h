/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Converts a YAML scalar to JSON: the core schema of YAML 1.2.2, chapter 10.3. Pure. */

struct yaml_scalar {
    const char *text; /* len bytes and a NUL; may hold NULs of its own */
    size_t len;
    bool plain;      /* written without quotes */
    const char *tag; /* full form, "tag:yaml.org,2002:str"; NULL for none */
};

/* The value as a new reference, or NULL with *ret_why (static) saying why there is none. */
json_t *yaml_scalar_resolve(const struct yaml_scalar *s, const char **ret_why);

/* True when the text may stand without quotes: YAML 1.1 and 1.2 readers both read it as a string.
 * In doubt false. */
bool yaml_scalar_is_plain_string(const char *text);
