/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's library gone mad (nvml_mad.c) measures, and its limits of memory. */
#include <stdbool.h>

#include "base/clock.h"

#include "test/unit/nvml_mad.h"

static bool is_mad(void)
{
    return nvml_mad_is("measures");
}

#define MAD(name, args)                                                                            \
    nvml_ret name args;                                                                            \
    nvml_ret name args

/* Of each card the same. */
#define MAD_NUMBER(name, args, sane)                                                               \
    MAD(name, args)                                                                                \
    {                                                                                              \
        (void)d;                                                                                   \
        *ret = is_mad() ? 4000000000U : (sane);                                                    \
        return nvml_mad_answer(NVML_SUCCESS, ret, sizeof(*ret));                                   \
    }

MAD_NUMBER(nvmlDeviceGetPowerUsage, (nvml_device d, unsigned *ret), 70000)
MAD_NUMBER(nvmlDeviceGetPerformanceState, (nvml_device d, unsigned *ret), 0)
MAD_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, (nvml_device d, unsigned long long *ret), 1)
MAD_NUMBER(nvmlDeviceGetMaxMigDeviceCount, (nvml_device d, unsigned *ret), d == (void *)1 ? 7 : 0)
MAD_NUMBER(nvmlDeviceGetGpuInstanceId, (nvml_device d, unsigned *ret), 7)

MAD(nvmlDeviceGetTemperature, (nvml_device d, unsigned sensor, unsigned *ret))
{
    (void)d;
    (void)sensor;
    *ret = is_mad() ? 4000000000U : 34;
    return nvml_mad_answer(NVML_SUCCESS, ret, sizeof(*ret));
}

MAD(nvmlDeviceGetUtilizationRates, (nvml_device d, struct nvml_utilization *ret))
{
    (void)d;
    *ret = (struct nvml_utilization){.gpu = is_mad() ? 4000 : 50, .memory = is_mad() ? 4000 : 20};
    return nvml_mad_answer(NVML_SUCCESS, ret, sizeof(*ret));
}

MAD(nvmlDeviceGetMemoryInfo_v2, (nvml_device d, struct nvml_memory_v2 *ret))
{
    (void)d;
    ret->total = 40ULL << 30;
    ret->used = is_mad() ? 41ULL << 30 : 0;
    ret->free = ret->total;
    return nvml_mad_answer(NVML_SUCCESS, ret, sizeof(*ret));
}

MAD(nvmlDeviceGetMigDeviceHandleByIndex, (nvml_device d, unsigned index, nvml_device *ret))
{
    (void)d;
    *ret = (void *)(1000UL + index);
    return nvml_mad_answer(index == 0 || is_mad() ? NVML_SUCCESS : NVML_NOT_FOUND, NULL, 0);
}

#define YEAR_US (365ULL * 86400 * 1000000)

/* The time stamp of a sample, in microseconds since 1970. A library that is mad about "clock" has it
 * ten years ahead, as before a clock that was wrong is set. */
static unsigned long long sampled_us(void)
{
    unsigned long long now = (unsigned long long)clock_wall_ms(clock_real()) * 1000;
    return nvml_mad_is("clock") ? now + 10 * YEAR_US : now;
}

MAD(nvmlDeviceGetProcessUtilization,
    (nvml_device d, struct nvml_process_sample *list, unsigned *n, unsigned long long since))
{
    unsigned room = *n;
    (void)d;
    if (since > sampled_us() + YEAR_US)
        return NVML_NOT_FOUND;
    list[0] = (struct nvml_process_sample){.pid = 77, .timeStamp = sampled_us(), .smUtil = 20};
    if (is_mad())
        list[0].smUtil = 4000;
    *n = nvml_mad_number(1);
    return nvml_mad_answer(*n > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS, list, sizeof(*list));
}

/* ---- GPM: one sample for all ---- */

MAD(nvmlGpmQueryDeviceSupport, (nvml_device d, struct nvml_gpm_support *ret))
{
    (void)d;
    ret->isSupportedDevice = 1;
    return nvml_mad_answer(NVML_SUCCESS, NULL, 0);
}

MAD(nvmlGpmSampleAlloc, (nvml_gpm_sample * ret))
{
    *ret = nvml_mad_number(1) ? (void *)1 : NULL;
    return nvml_mad_answer(NVML_SUCCESS, NULL, 0);
}

MAD(nvmlGpmSampleFree, (nvml_gpm_sample sample))
{
    (void)sample;
    return nvml_mad_answer(NVML_SUCCESS, NULL, 0);
}

MAD(nvmlGpmSampleGet, (nvml_device d, nvml_gpm_sample sample))
{
    (void)d;
    (void)sample;
    return nvml_mad_answer(NVML_SUCCESS, NULL, 0);
}

MAD(nvmlGpmMigSampleGet, (nvml_device d, unsigned gi, nvml_gpm_sample sample))
{
    (void)gi;
    return nvmlGpmSampleGet(d, sample);
}

MAD(nvmlGpmMetricsGet, (struct nvml_gpm_metrics * get))
{
    for (unsigned i = 0; i < get->numMetrics; i++) {
        get->metrics[i].nvmlReturn = NVML_SUCCESS;
        get->metrics[i].value = is_mad() ? -1e300 : 50;
    }
    return nvml_mad_answer(NVML_SUCCESS, get->metrics, get->numMetrics * sizeof(*get->metrics));
}

/* ---- limits ---- */

MAD(nvmlDeviceSetMemoryLimits_v1, (nvml_device d, struct nvml_limits_set *limits))
{
    (void)d;
    return nvml_mad_answer(NVML_SUCCESS, limits, sizeof(*limits));
}

MAD(nvmlDeviceGetMemoryLimits_v1, (nvml_device d, struct nvml_limits_get *ret))
{
    (void)d;
    ret->hardLimit = 1ULL << 30;
    return nvml_mad_answer(NVML_SUCCESS, ret, sizeof(*ret));
}
