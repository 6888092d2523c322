/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: further calls of monitors (nvidia-smi -q, DCGM, gpustat, nvtop), beside nvml_telemetry.c.
 * The boards are passively cooled, and at their highest links. A figure of a whole card is not available for a MIG device.
 */
#include <time.h>

#include "sim/nvml_calls.h"
#include "sim/nvml_load.h"
#include "sim/nvml_session.h"

/* One or two numbers of a card; NULL where the call has one. */
static int numbers(struct call *c, nvmlDevice_t device, enum call_on on, const unsigned int *first,
                   const unsigned int *second, bool two)
{
    int rc = call_enter(c, device, on);
    if (rc == NVML_SUCCESS && (first == NULL || (two && second == NULL)))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    return rc;
}

#define ONE(name, on, expression)                                                                  \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *ret)                                      \
    {                                                                                              \
        struct call c = {.id = CALL_##name};                                                       \
        int rc = numbers(&c, device, on, ret, NULL, /* two= */ false);                             \
        if (rc == NVML_SUCCESS)                                                                    \
            *ret = (expression);                                                                   \
        return call_leave(&c, rc);                                                                 \
    }

#define TWO(name, on, expression_1, expression_2)                                                  \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *first, unsigned int *second)              \
    {                                                                                              \
        struct call c = {.id = CALL_##name};                                                       \
        int rc = numbers(&c, device, on, first, second, /* two= */ true);                          \
        if (rc == NVML_SUCCESS) {                                                                  \
            *first = (expression_1);                                                               \
            *second = (expression_2);                                                              \
        }                                                                                          \
        return call_leave(&c, rc);                                                                 \
    }

#define NOT_THERE(name)                                                                            \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *ret)                                      \
    {                                                                                              \
        struct call c = {.id = CALL_##name};                                                       \
        int rc = numbers(&c, device, ON_WHOLE, ret, NULL, /* two= */ false);                       \
        return call_leave(&c, rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc);                 \
    }

/* --- Power and state --- */

/* P0, where an idle board with HBM stays. Another one, whose memory's clock falls, is in P8 then. */
ONE(nvmlDeviceGetPerformanceState, ON_WHOLE,
    load_memory_mhz(&c) < hw_model(c.gpu)->clock_memory_mhz ? 8 : 0)
ALIAS(nvmlDeviceGetPowerState, nvmlDeviceGetPerformanceState,
      (nvmlDevice_t device, unsigned int *pState));
ONE(nvmlDeviceGetPowerManagementMode, ON_WHOLE, 1)
ONE(nvmlDeviceGetPowerManagementLimit, ON_WHOLE, hw_model(c.gpu)->power_limit_w * 1000)
ONE(nvmlDeviceGetPowerManagementDefaultLimit, ON_WHOLE, hw_model(c.gpu)->power_limit_w * 1000)
/* Down to a quarter: 100 W of an A100's 400 W; derived for the others. */
TWO(nvmlDeviceGetPowerManagementLimitConstraints, ON_WHOLE, hw_model(c.gpu)->power_limit_w * 250,
    hw_model(c.gpu)->power_limit_w * 1000)

/* No board has a fan. */
NOT_THERE(nvmlDeviceGetFanSpeed)
NOT_THERE(nvmlDeviceGetNumFans)

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *speed)
{
    struct call c = {.id = CALL_nvmlDeviceGetFanSpeed_v2};
    (void)fan;
    int rc = numbers(&c, device, ON_WHOLE, speed, NULL, /* two= */ false);
    return call_leave(&c, rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc);
}

/* Shutdown, slowdown, the memory's and the GPU's highest: an A100's, as nvidia-smi -q prints them.
 */
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int thresholdType,
                                               unsigned int *temp)
{
    static const unsigned int celsius[] = {92, 89, 95, 85};
    struct call c = {.id = CALL_nvmlDeviceGetTemperatureThreshold};
    int rc = numbers(&c, device, ON_WHOLE, temp, NULL, /* two= */ false);
    if (rc == NVML_SUCCESS && thresholdType >= sizeof(celsius) / sizeof(celsius[0]))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *temp = celsius[thresholdType];
    return call_leave(&c, rc);
}

/* --- PCIe --- */

ONE(nvmlDeviceGetCurrPcieLinkGeneration, ON_WHOLE, hw_model(c.gpu)->pcie_generation)
ONE(nvmlDeviceGetCurrPcieLinkWidth, ON_WHOLE, 16)
ONE(nvmlDeviceGetGpuMaxPcieLinkGeneration, ON_WHOLE, hw_model(c.gpu)->pcie_generation)

/* --- Clocks --- */

static int clock_of(unsigned int call, nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    struct call c = {.id = call};
    int rc = numbers(&c, device, ON_WHOLE, clock, NULL, /* two= */ false);
    if (rc == NVML_SUCCESS && type > 3)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *clock = type == 2 ? hw_model(c.gpu)->clock_memory_mhz : hw_model(c.gpu)->clock_sm_mhz;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned int type,
                                            unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetApplicationsClock, device, type, clock);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned int type,
                                                   unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetDefaultApplicationsClock, device, type, clock);
}

nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, unsigned int type,
                                                unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetMaxCustomerBoostClock, device, type, clock);
}

/* nvml.h, nvmlClocksEventReason...: idle, and the eight that hold clocks back. */
#define REASONS_SUPPORTED 0x1FFULL

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                      unsigned long long *reasons)
{
    struct call c = {.id = CALL_nvmlDeviceGetSupportedClocksEventReasons};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && reasons == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *reasons = REASONS_SUPPORTED;
    return call_leave(&c, rc);
}

ALIAS(nvmlDeviceGetSupportedClocksThrottleReasons, nvmlDeviceGetSupportedClocksEventReasons,
      (nvmlDevice_t device, unsigned long long *reasons));

/* Power, temperature, and ten more, for which nothing was ever held back. */
enum { PERF_POLICY_POWER = 0, PERF_POLICY_THERMAL = 1, PERF_POLICY_COUNT = 12 };

static unsigned long long violation_ns(const struct call *c, unsigned int policy)
{
    if (policy == PERF_POLICY_POWER)
        return load_held_ns(c, HOLD_POWER);
    return policy == PERF_POLICY_THERMAL ? load_held_ns(c, HOLD_HEAT) : 0;
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned int perfPolicyType,
                                          nvmlViolationTime_t *violTime)
{
    struct call c = {.id = CALL_nvmlDeviceGetViolationStatus};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (violTime == NULL || perfPolicyType >= PERF_POLICY_COUNT))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        struct timespec ts;
        (void)clock_gettime(CLOCK_REALTIME, &ts);
        *violTime = (nvmlViolationTime_t){.referenceTime = (unsigned long long)ts.tv_sec * 1000000 +
                                                           ts.tv_nsec / 1000,
                                          .violationTime = violation_ns(&c, perfPolicyType)};
    }
    return call_leave(&c, rc);
}

/* --- Board --- */

ONE(nvmlDeviceGetDisplayActive, ON_WHOLE, 0)
ONE(nvmlDeviceGetMultiGpuBoard, ON_WHOLE, 0)
ONE(nvmlDeviceGetAccountingMode, ON_WHOLE, 0)

/* For GK110 boards only. */
nvmlReturn_t nvmlDeviceGetGpuOperationMode(nvmlDevice_t device, unsigned int *current,
                                           unsigned int *pending)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuOperationMode};
    int rc = numbers(&c, device, ON_WHOLE, current, pending, /* two= */ true);
    return call_leave(&c, rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc);
}

/* For Windows only. */
nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, unsigned int *current,
                                      unsigned int *pending)
{
    struct call c = {.id = CALL_nvmlDeviceGetDriverModel};
    int rc = numbers(&c, device, ON_WHOLE, current, pending, /* two= */ true);
    return call_leave(&c, rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc);
}

ALIAS(nvmlDeviceGetDriverModel_v2, nvmlDeviceGetDriverModel,
      (nvmlDevice_t device, unsigned int *current, unsigned int *pending));

/* From Turing on the driver's firmware runs on the board, with the driver's version. */
TWO(nvmlDeviceGetGspFirmwareMode, ON_WHOLE, 1, 1)

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    enum { VERSION_BYTES = 64 }; /* nvml.h: NVML_GSP_FIRMWARE_VERSION_BUF_SIZE */
    struct call c = {.id = CALL_nvmlDeviceGetGspFirmwareVersion};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS)
        rc = copy_text(version, VERSION_BYTES, c.hw->driver_version);
    return call_leave(&c, rc);
}

/* --- Media engines: nobody uses them --- */

static int idle_engine(unsigned int call, nvmlDevice_t device, unsigned int *utilization,
                       unsigned int *period_us)
{
    struct call c = {.id = call};
    int rc = numbers(&c, device, ON_DEVICE, utilization, period_us, /* two= */ true);
    if (rc == NVML_SUCCESS && c.gpu->mig_current)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        *utilization = 0;
        *period_us = 167000;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int *utilization,
                                         unsigned int *samplingPeriodUs)
{
    return idle_engine(CALL_nvmlDeviceGetJpgUtilization, device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int *utilization,
                                         unsigned int *samplingPeriodUs)
{
    return idle_engine(CALL_nvmlDeviceGetOfaUtilization, device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessionCount,
                                       unsigned int *averageFps, unsigned int *averageLatency)
{
    struct call c = {.id = CALL_nvmlDeviceGetEncoderStats};
    int rc = numbers(&c, device, ON_WHOLE, sessionCount, averageFps, /* two= */ true);
    if (rc == NVML_SUCCESS && averageLatency == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *sessionCount = *averageFps = *averageLatency = 0;
    return call_leave(&c, rc);
}

/* --- NVLink --- */

enum { LINK_COUNTERS = 5 };

static unsigned long long link_errors(const struct hw_gpu *gpu, unsigned int link,
                                      unsigned int counter)
{
    const struct hw_link_errors *e = &gpu->link_errors;
    const uint64_t counters[LINK_COUNTERS] = {e->replays, e->recoveries, e->crc_flits, e->crc_data,
                                              /* ECC: */ 0};
    return link == 0 ? counters[counter] : 0;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                             unsigned int counter, unsigned long long *counterValue)
{
    struct call c = {.id = CALL_nvmlDeviceGetNvLinkErrorCounter};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (counterValue == NULL || counter >= LINK_COUNTERS))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && (c.hw->links == LINKS_NONE || link >= hw_model(c.gpu)->nvlinks))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *counterValue = link_errors(c.gpu, link, counter);
    return call_leave(&c, rc);
}
