/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/dcgm_fields.h"

#include <math.h>
#include <string.h>

#define MIB     (1.0 / (1 << 20))
#define PERCENT 100
#define RATIO   1
/* Sampling may show a little more than there can be. */
#define SLACK 1.01

#define DEV(suffix, v, factor_, max_, counter_, default_, text)                                    \
    {                                                                                              \
        .name = "DCGM_FI_DEV_" suffix, .value = TELEMETRY_##v, .factor = (factor_), .max = (max_), \
        .is_counter = (counter_), .is_default = (default_), .help = (text)                         \
    }
/* The same, and GPU instances have it. */
#define PART(name_, v, factor_, max_, default_, text)                                              \
    {                                                                                              \
        .name = "DCGM_FI_" name_, .value = TELEMETRY_##v, .factor = (factor_), .max = (max_),      \
        .is_of_parts = true, .is_default = (default_), .help = (text)                              \
    }

enum { GAUGE = 0, COUNTER = 1, EXTRA = 0, DEFAULT = 1 };

/* The built-in list is dcgm-exporter's default (etc/default-counters.csv at v4.5), without what is
 * not measured here (the licence of a vGPU), and all of the profiling fields. */
const struct dcgm_field dcgm_fields[] = {
    DEV("SM_CLOCK", SM_CLOCK, 1, 0, GAUGE, DEFAULT, "Clock of the multiprocessors, in MHz."),
    DEV("MEM_CLOCK", MEMORY_CLOCK, 1, 0, GAUGE, DEFAULT, "Clock of the memory, in MHz."),
    DEV("MEMORY_TEMP", MEMORY_TEMPERATURE, 1, 0, GAUGE, DEFAULT,
        "Temperature of the memory, in degrees Celsius."),
    DEV("GPU_TEMP", TEMPERATURE, 1, 0, GAUGE, DEFAULT,
        "Temperature of the GPU, in degrees Celsius."),
    DEV("POWER_USAGE", POWER, 1, 0, GAUGE, DEFAULT, "Power that the card takes, in W."),
    DEV("ENFORCED_POWER_LIMIT", POWER_LIMIT, 1, 0, GAUGE, EXTRA,
        "Power that the card may take, in W."),
    DEV("TOTAL_ENERGY_CONSUMPTION", ENERGY, 1, 0, COUNTER, DEFAULT,
        "Energy taken since the driver was loaded, in mJ."),
    DEV("FAN_SPEED", FAN_SPEED, 1, 0, GAUGE, EXTRA, "Speed of the fan, in percent."),
    DEV("PSTATE", PSTATE, 1, 15, GAUGE, EXTRA, "Performance state, 0 (fastest) to 15."),
    DEV("CLOCKS_EVENT_REASONS", CLOCK_EVENT_REASONS, 1, 0, GAUGE, EXTRA,
        "Why the clocks are as they are, as bits."),
    DEV("CLOCK_THROTTLE_REASONS", CLOCK_EVENT_REASONS, 1, 0, GAUGE, EXTRA,
        "Why the clocks are as they are, as bits; the field's older name."),
    DEV("POWER_VIOLATION", POWER_VIOLATION, 1, 0, COUNTER, EXTRA,
        "Time for which clocks were held down for power, in ns."),
    DEV("THERMAL_VIOLATION", THERMAL_VIOLATION, 1, 0, COUNTER, EXTRA,
        "Time for which clocks were held down for heat, in ns."),
    DEV("PCIE_REPLAY_COUNTER", PCIE_REPLAYS, 1, 0, COUNTER, DEFAULT, "Retries on PCIe."),
    DEV("PCIE_TX_THROUGHPUT", PCIE_TX, 1, 0, GAUGE, EXTRA, "Sent over PCIe, in KB a second."),
    DEV("PCIE_RX_THROUGHPUT", PCIE_RX, 1, 0, GAUGE, EXTRA, "Received over PCIe, in KB a second."),
    DEV("GPU_UTIL", UTILIZATION, 1, PERCENT, GAUGE, DEFAULT,
        "Time in which a kernel ran, in percent."),
    DEV("MEM_COPY_UTIL", COPY_UTILIZATION, 1, PERCENT, GAUGE, DEFAULT,
        "Time in which the memory was read or written, in percent."),
    DEV("ENC_UTIL", ENCODER_UTILIZATION, 1, PERCENT, GAUGE, DEFAULT,
        "Use of the encoder, in percent."),
    DEV("DEC_UTIL", DECODER_UTILIZATION, 1, PERCENT, GAUGE, DEFAULT,
        "Use of the decoder, in percent."),
    DEV("XID_ERRORS", LAST_XID, 1, 0, GAUGE, DEFAULT, "Number of the newest Xid, 0: none yet."),
    PART("DEV_FB_TOTAL", MEMORY_TOTAL, MIB, 0, EXTRA, "Memory, in MiB."),
    PART("DEV_FB_FREE", MEMORY_FREE, MIB, 0, DEFAULT, "Free memory, in MiB."),
    PART("DEV_FB_USED", MEMORY_USED, MIB, 0, DEFAULT, "Used memory, in MiB."),
    PART("DEV_FB_RESERVED", MEMORY_RESERVED, MIB, 0, DEFAULT,
         "Memory that the driver keeps for itself, in MiB."),
    DEV("ECC_SBE_VOL_TOTAL", ECC_CORRECTED, 1, 0, COUNTER, EXTRA,
        "Corrected memory errors since the driver was loaded."),
    DEV("ECC_DBE_VOL_TOTAL", ECC_UNCORRECTED, 1, 0, COUNTER, EXTRA,
        "Uncorrected memory errors since the driver was loaded."),
    DEV("ECC_SBE_AGG_TOTAL", ECC_CORRECTED_TOTAL, 1, 0, COUNTER, EXTRA,
        "Corrected memory errors of the card's life."),
    DEV("ECC_DBE_AGG_TOTAL", ECC_UNCORRECTED_TOTAL, 1, 0, COUNTER, EXTRA,
        "Uncorrected memory errors of the card's life."),
    DEV("RETIRED_SBE", RETIRED_CORRECTED, 1, 0, COUNTER, EXTRA,
        "Pages retired for corrected errors."),
    DEV("RETIRED_DBE", RETIRED_UNCORRECTED, 1, 0, COUNTER, EXTRA,
        "Pages retired for uncorrected errors."),
    DEV("RETIRED_PENDING", RETIRED_PENDING, 1, 0, COUNTER, EXTRA,
        "Whether pages wait for a reset to be retired."),
    DEV("NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", NVLINK_CRC_FLIT_ERRORS, 1, 0, COUNTER, EXTRA,
        "CRC errors of NVLinks' flow control."),
    DEV("NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", NVLINK_CRC_DATA_ERRORS, 1, 0, COUNTER, EXTRA,
        "CRC errors of NVLinks' data."),
    DEV("NVLINK_REPLAY_ERROR_COUNT_TOTAL", NVLINK_REPLAYS, 1, 0, COUNTER, EXTRA,
        "Retries on NVLinks."),
    DEV("NVLINK_RECOVERY_ERROR_COUNT_TOTAL", NVLINK_RECOVERIES, 1, 0, COUNTER, EXTRA,
        "Recoveries of NVLinks."),
    DEV("NVLINK_BANDWIDTH_TOTAL", NVLINK_BYTES, 1, 0, COUNTER, DEFAULT,
        "Data over all NVLinks, both directions, in KiB."),
    DEV("UNCORRECTABLE_REMAPPED_ROWS", REMAPPED_UNCORRECTABLE, 1, 0, COUNTER, DEFAULT,
        "Memory rows remapped for uncorrectable errors."),
    DEV("CORRECTABLE_REMAPPED_ROWS", REMAPPED_CORRECTABLE, 1, 0, COUNTER, DEFAULT,
        "Memory rows remapped for correctable errors."),
    DEV("ROW_REMAP_FAILURE", REMAP_FAILED, 1, 0, GAUGE, DEFAULT,
        "Whether the remapping of a memory row failed."),
    DEV("ROW_REMAP_PENDING", REMAP_PENDING, 1, 0, GAUGE, EXTRA,
        "Whether a memory row waits for a reset to be remapped."),
    PART("PROF_GR_ENGINE_ACTIVE", GRAPHICS_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the time in which the graphics or compute engine was active."),
    PART("PROF_SM_ACTIVE", SM_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the cycles in which a multiprocessor had work."),
    PART("PROF_SM_OCCUPANCY", SM_OCCUPANCY, 1, RATIO, DEFAULT,
         "Warps on the multiprocessors, as a part of the most that there can be."),
    PART("PROF_PIPE_TENSOR_ACTIVE", TENSOR_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the cycles in which the tensor cores were active."),
    PART("PROF_DRAM_ACTIVE", DRAM_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the cycles in which the memory sent or received."),
    PART("PROF_PIPE_FP64_ACTIVE", FP64_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the cycles in which the FP64 pipes were active."),
    PART("PROF_PIPE_FP32_ACTIVE", FP32_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the cycles in which the FP32 pipes were active."),
    PART("PROF_PIPE_FP16_ACTIVE", FP16_ACTIVE, 1, RATIO, DEFAULT,
         "Part of the cycles in which the FP16 pipes were active."),
    PART("PROF_PCIE_TX_BYTES", PCIE_TX_BYTES, 1, 0, DEFAULT,
         "Sent over PCIe with its headers, in bytes a second."),
    PART("PROF_PCIE_RX_BYTES", PCIE_RX_BYTES, 1, 0, DEFAULT,
         "Received over PCIe with its headers, in bytes a second."),
    PART("PROF_NVLINK_TX_BYTES", NVLINK_TX_BYTES, 1, 0, DEFAULT,
         "Sent over NVLink, in bytes a second."),
    PART("PROF_NVLINK_RX_BYTES", NVLINK_RX_BYTES, 1, 0, DEFAULT,
         "Received over NVLink, in bytes a second."),
};
const size_t dcgm_n_fields = sizeof(dcgm_fields) / sizeof(dcgm_fields[0]);

const struct dcgm_field *dcgm_field_find(const char *name)
{
    for (size_t i = 0; i < dcgm_n_fields; i++)
        if (strcmp(dcgm_fields[i].name, name) == 0)
            return &dcgm_fields[i];
    return NULL;
}

double dcgm_field_value(const struct dcgm_field *f, const struct telemetry_values *v)
{
    double value = v->of[f->value] * f->factor;
    if (!isfinite(value) || value < 0)
        return (double)NAN;
    if (f->max <= 0 || value <= f->max)
        return value;
    return value <= f->max * SLACK ? f->max : (double)NAN;
}
