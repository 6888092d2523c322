/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Parses numbers: the whole string, no blanks, no plus sign. All other modules parse numbers
 * through this one. */

/* Decimal within [min, max]. ERR_INVALID names the range. */
int num_parse(const char *s, int64_t min, int64_t max, int64_t *ret, struct err *e) MUST_CHECK;
/* Hexadecimal after 0x (PCI ids in mig-parted's notation: "0x233010DE"), or decimal.
 * ERR_INVALID. */
int num_parse_hex32(const char *s, uint32_t *ret, struct err *e) MUST_CHECK;
