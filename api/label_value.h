/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#define LABEL_VALUE_MAX 63
#define LABEL_NAME_MAX  63

/* Text as the value of a label: runs of blanks become a dash, what labels must not hold is dropped
 * (GPU feature discovery does the same: k8s-device-plugin internal/lm/resource.go, sanitise), and
 * at most max bytes (LABEL_VALUE_MAX or less) with a letter or digit at both ends are left, which
 * it leaves to chance. NULL when nothing is left. Caller frees. */
char *label_value_of(const char *text, unsigned max);
/* The same with all the room there is. */
char *label_value_from(const char *text);
/* Would an API server take it as a label's value? "" is one. */
bool label_value_legal(const char *value);
