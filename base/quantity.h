/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Kubernetes resource quantities ("100m", "16Gi", "1e3"): apimachinery pkg/api/resource. */

/* Value in base units, rounded up as Quantity.Value() does. ERR_INVALID; ERR_TOO_LARGE beyond
 * int64. */
int quantity_parse(const char *s, int64_t *ret, struct err *e) MUST_CHECK;
/* Canonical text of a whole number ("7"). Caller frees. */
char *quantity_format(int64_t value);
/* The same in the largest binary unit that it is a multiple of ("64Gi", "81559Mi", "1023"): the
 * canonical form of a BinarySI quantity. Caller frees. */
char *quantity_format_binary(int64_t value);
