/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/neutral_fields.h"

#include "base/xalloc.h"

#define PERCENT 0.01
#define RATIO   1

/* Units as Prometheus has them: ratios from 0 to 1, bytes. */
static const struct dcgm_field fields[] = {
    {.name = "cleave_gpu_utilization_ratio",
     .value = TELEMETRY_UTILIZATION,
     .factor = PERCENT,
     .max = RATIO,
     .help = "Use of the card's processors."},
    {.name = "cleave_gpu_memory_total_bytes",
     .value = TELEMETRY_MEMORY_TOTAL,
     .factor = 1,
     .help = "Memory of the card."},
    {.name = "cleave_gpu_memory_free_bytes",
     .value = TELEMETRY_MEMORY_FREE,
     .factor = 1,
     .help = "Free memory of the card."},
    {.name = "cleave_gpu_memory_used_bytes",
     .value = TELEMETRY_MEMORY_USED,
     .factor = 1,
     .help = "Used memory of the card."},
    {.name = "cleave_gpu_temperature_celsius",
     .value = TELEMETRY_TEMPERATURE,
     .factor = 1,
     .help = "Temperature of the card."},
    {.name = "cleave_gpu_power_watts",
     .value = TELEMETRY_POWER,
     .factor = 1,
     .help = "Power that the card takes."},
    {.name = "cleave_gpu_power_limit_watts",
     .value = TELEMETRY_POWER_LIMIT,
     .factor = 1,
     .help = "Power that the card may take."},
    {.name = "cleave_gpu_ecc_corrected_total",
     .value = TELEMETRY_ECC_CORRECTED,
     .factor = 1,
     .is_counter = true,
     .help = "Corrected memory errors since the driver was loaded."},
    {.name = "cleave_gpu_ecc_uncorrected_total",
     .value = TELEMETRY_ECC_UNCORRECTED,
     .factor = 1,
     .is_counter = true,
     .help = "Uncorrected memory errors since the driver was loaded."},
};

void neutral_fields_list(struct counter_list *ret)
{
    *ret = (struct counter_list){0};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        counter_list_add(ret, &fields[i]);
}
