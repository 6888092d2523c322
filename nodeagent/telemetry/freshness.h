/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sb.h"

#include "nodeagent/gpu/gpu.h"

/* The age of a card's values on the page of telemetry. Pure. */
struct freshness {
    unsigned index;
    char uuid[GPU_UUID_BYTES];
    bool is_read; /* once */
    bool failed;  /* the newest attempt did */
    int64_t read_mono_ms;
};

/* Appends the gauges of staleness and age. Values are stale when the newest attempt failed, or when
 * they are older than limit_ms. */
void freshness_write(const struct freshness *list, size_t n, int64_t limit_ms, int64_t now_mono_ms,
                     struct sb *out);
