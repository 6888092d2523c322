/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Durations in the notation of Kubernetes' own programs (Go's time.ParseDuration): whole numbers,
 * each with a unit out of h, m, s and ms, as "15s", "1m30s", "500ms". No fractions, no sign.
 * *ret_ms is within [min_ms, max_ms]. ERR_INVALID names the fault. */
int duration_parse(const char *s, int64_t min_ms, int64_t max_ms, int64_t *ret_ms,
                   struct err *e) MUST_CHECK;
