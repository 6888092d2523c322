/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "nodeagent/gpu/gpu.h"

/*
 * Telemetry: the values that a card measures of itself, and what its processes use of it. Plain
 * values: no allocation, and no pointers.
 */

#define TELEMETRY(name, unit) TELEMETRY_##name,
enum telemetry_value {
#include "nodeagent/gpu/telemetry.def"
    TELEMETRY_VALUES,
};
#undef TELEMETRY

/* A set of values has a bit for each. */
#define TELEMETRY_BIT(value) (UINT64_C(1) << (value))
#define TELEMETRY_ALL        UINT64_MAX
static_assert(TELEMETRY_VALUES <= 64, "a set has room for all values");

/* NAN: the card, its driver or this part does not report it. */
struct telemetry_values {
    double of[TELEMETRY_VALUES];
};

/* A MIG part: a GPU instance. */
struct telemetry_part {
    unsigned gi_id;
    struct telemetry_values values;
};

/* A process on the card, as the driver lists it. */
struct telemetry_process {
    unsigned pid;        /* the host's */
    int gi_id;           /* its part; -1: the whole card */
    double memory_bytes; /* NAN: not reported */
    double utilization;  /* of the card's processors, in percent, since the last reading; NAN */
};

enum { TELEMETRY_MAX_PARTS = MIG_MAX_INSTANCES, TELEMETRY_MAX_PROCESSES = GPU_MAX_PROCESSES };

struct telemetry_card {
    char uuid[GPU_UUID_BYTES];
    int64_t read_mono_ms; /* when it was read to its end */
    struct telemetry_values values;
    unsigned n_parts;
    struct telemetry_part parts[TELEMETRY_MAX_PARTS];
    unsigned n_processes;
    struct telemetry_process processes[TELEMETRY_MAX_PROCESSES]; /* by pid and part */
    unsigned n_left_out; /* processes for which there is no room: those with the highest pids */
};

/* All NAN. */
void telemetry_values_init(struct telemetry_values *v);
/* Sorts processes of the card, each of which is there once, and takes as many as there is room
 * for. */
void telemetry_take_processes(struct telemetry_card *c, struct telemetry_process *list, size_t n);
