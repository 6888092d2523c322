/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#define LABEL_VALUE_MAX 63
#define LABEL_NAME_MAX  63

/* A text as the value of a label. Runs of blanks become a dash and illegal characters are dropped
 * (as GPU feature discovery does: k8s-device-plugin internal/lm/resource.go, sanitise). At most max
 * bytes (LABEL_VALUE_MAX or less) are kept, with a letter or digit at both ends, which GPU feature
 * discovery does not ensure. NULL when nothing is left. Caller frees. */
char *label_value_of(const char *text, unsigned max);
/* The same with LABEL_VALUE_MAX. */
char *label_value_from(const char *text);
/* True for a value that an API server accepts; "" is one. */
bool label_value_legal(const char *value);
