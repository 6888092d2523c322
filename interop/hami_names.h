/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Under which names HAMi's metrics are shown: HAMi renamed all of them in 2.10, and has the earlier
 * names with --legacy-metrics. */
enum hami_names { HAMI_NONE, HAMI_CURRENT, HAMI_LEGACY, HAMI_BOTH };

/* Two generations of names, by which tables of them are indexed. */
enum hami_generation { HAMI_NAMES_CURRENT, HAMI_NAMES_LEGACY, HAMI_GENERATIONS };

/* HAMi gives all of its families this label. */
#define HAMI_ZONE "zone=\"vGPU\""

/* "none", "current", "legacy", "both". ERR_INVALID. */
int hami_names_parse(const char *text, enum hami_names *ret, struct err *e) MUST_CHECK;
bool hami_names_have(enum hami_names names, enum hami_generation g);
