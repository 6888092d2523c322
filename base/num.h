/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* The one place where text becomes a number: the whole string, no blanks, no plus sign. */

/* Decimal within [min, max]. ERR_INVALID tells the range. */
int num_parse(const char *s, int64_t min, int64_t max, int64_t *ret, struct err *e) MUST_CHECK;
/* Hexadecimal behind 0x (PCI ids as mig-parted writes them: "0x233010DE"), or decimal. ERR_INVALID.
 */
int num_parse_hex32(const char *s, uint32_t *ret, struct err *e) MUST_CHECK;
