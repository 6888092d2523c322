/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/*
 * Walks through a TOML document (toml.io, v1.0.0) and hands out its values one by one; nothing is
 * kept. For configuration files of other programs, of which a few values matter: it accepts more
 * than TOML allows (keys that come twice, bare words as values). Of what TOML allows, escapes other
 * than \" and \\ stay as they are, and two things are refused: a date and its time with a blank
 * between them, and quotes that end a text of several lines. Pure.
 */
#define TOML_MAX_DEPTH 12
#define TOML_MAX_TEXT  1024

struct toml_value {
    const char *const *keys; /* the path, n_keys of them: "plugins", "cri", "enable_cdi" */
    size_t n_keys;
    const char *text; /* a string without its quotes; a number, date or boolean as written */
};

/* Called for each value, and for each item of an array under the array's path. Borrowed for the
 * call. */
typedef void toml_fn(void *arg, const struct toml_value *v);

/* ERR_INVALID, with the line's number; ERR_TOO_LARGE: a key or text longer than TOML_MAX_TEXT, or
 * tables and arrays nested deeper than TOML_MAX_DEPTH. fn may have been called before. */
int toml_scan(const char *text, size_t len, toml_fn *fn, void *arg, struct err *e) MUST_CHECK;
