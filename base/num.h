/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* The one place where text becomes a number: whole string, decimal (or 0x hex for num_parse_hex32),
 * in range. */
int num_parse(const char *s, int64_t min, int64_t max, int64_t *ret, struct err *e) MUST_CHECK;
int num_parse_hex32(const char *s, uint32_t *ret, struct err *e) MUST_CHECK;
