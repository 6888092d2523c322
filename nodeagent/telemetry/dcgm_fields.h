/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nodeagent/gpu/telemetry.h"

/*
 * DCGM's fields, by the names that dcgm-exporter has for its metrics, and what is measured here for
 * them. Sources: docs.nvidia.com/datacenter/dcgm, "Field Identifiers", for names and units; that
 * and NVIDIA's MIG user guide for which are a GPU instance's own. Pure.
 */
struct dcgm_field {
    const char *name;
    enum telemetry_value value;
    double factor;    /* DCGM's unit = value * factor */
    double max;       /* in DCGM's unit: more is nonsense; 0: there is no bound */
    bool is_of_parts; /* GPU instances have the value, too */
    bool is_counter;  /* as dcgm-exporter's own list has it */
    bool is_default;  /* in the built-in list */
    const char *help;
};

/* The label that fields of type "label" can be here. */
#define DCGM_DRIVER_VERSION "DCGM_FI_DRIVER_VERSION"

/* The fields, in the order in which the built-in list has them. */
extern const struct dcgm_field dcgm_fields[];
extern const size_t dcgm_n_fields;

/* NULL: nothing is measured under this name. */
const struct dcgm_field *dcgm_field_find(const char *name);
/* The value in DCGM's unit; NAN: it is not reported, or cannot be. */
double dcgm_field_value(const struct dcgm_field *f, const struct telemetry_values *v);
