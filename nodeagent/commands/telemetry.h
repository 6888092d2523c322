/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/commands/run_flags.h"
#include "nodeagent/telemetry/sampler.h"

/* The page of telemetry, as `cleave-agent run` has it by its flags (docs/gpu-metrics.md). */
#define TELEMETRY_PATH "/metrics/telemetry"

/* The telemetry of a process. It stays at its address while there is a sampler, which borrows the
 * counters. */
struct telemetry {
    struct counter_list counters; /* freed by counter_list_done, after the sampler */
    struct sampler *sampler;      /* NULL: off */
};

/* Reads the list of counters, and logs what it passes over; nothing where telemetry is off. Errors of
 * counter_list_load. */
int telemetry_load(const struct run_flags *f, struct counter_list *ret, struct err *e) MUST_CHECK;
/* Starts the sampler's thread, unless telemetry is off. Borrows gpu. Errors of sampler_start. */
int telemetry_open(const struct run_flags *f, struct gpu *gpu, struct telemetry *ret,
                   struct err *e) MUST_CHECK;
