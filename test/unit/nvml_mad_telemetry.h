/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a library gone mad measures: the end of nvml_mad.c, whose words these functions use.
 */
#pragma once

#define MAD_NUMBER(name, args, sane)                                                               \
    MAD(name, args)                                                                                \
    {                                                                                              \
        (void)d;                                                                                   \
        *ret = is("measures") ? 4000000000U : (sane);                                              \
        mad_touch(ret, sizeof(*ret));                                                              \
        return answer(NVML_SUCCESS);                                                               \
    }

MAD_NUMBER(nvmlDeviceGetPowerUsage, (nvml_device d, unsigned *ret), 70000)
MAD_NUMBER(nvmlDeviceGetPerformanceState, (nvml_device d, unsigned *ret), 0)
MAD_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, (nvml_device d, unsigned long long *ret), 1)
MAD_NUMBER(nvmlDeviceGetMaxMigDeviceCount, (nvml_device d, unsigned *ret),
           number_of(d) == 1 ? 7 : 0)
MAD_NUMBER(nvmlDeviceGetGpuInstanceId, (nvml_device d, unsigned *ret), 7)

MAD(nvmlDeviceGetTemperature, (nvml_device d, unsigned sensor, unsigned *ret))
{
    (void)d;
    (void)sensor;
    *ret = is("measures") ? 4000000000U : 34;
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetUtilizationRates, (nvml_device d, struct nvml_utilization *ret))
{
    (void)d;
    *ret = (struct nvml_utilization){.gpu = is("measures") ? 4000 : 50,
                                     .memory = is("measures") ? 4000 : 20};
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetMemoryInfo_v2, (nvml_device d, struct nvml_memory_v2 *ret))
{
    (void)d;
    ret->total = 40ULL << 30;
    ret->used = is("measures") ? 41ULL << 30 : 0;
    ret->free = ret->total;
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetMigDeviceHandleByIndex, (nvml_device d, unsigned index, nvml_device *ret))
{
    (void)d;
    *ret = handle(MIG_DEVICE + index);
    return answer(index == 0 || is("measures") ? NVML_SUCCESS : NVML_NOT_FOUND);
}

MAD(nvmlDeviceGetProcessUtilization,
    (nvml_device d, struct nvml_process_sample *list, unsigned *n, unsigned long long since))
{
    unsigned room = *n;
    (void)d;
    (void)since;
    list[0] = (struct nvml_process_sample){.pid = 77, .timeStamp = 1, .smUtil = 20};
    if (is("measures"))
        list[0].smUtil = 4000;
    mad_touch(list, sizeof(*list));
    *n = mad_number(1);
    return answer(*n > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

/* ---- GPM: one sample for all ---- */

MAD(nvmlGpmQueryDeviceSupport, (nvml_device d, struct nvml_gpm_support *ret))
{
    (void)d;
    ret->isSupportedDevice = 1;
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpmSampleAlloc, (nvml_gpm_sample * ret))
{
    *ret = mad_byte() < 240 ? handle(1) : NULL;
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpmSampleFree, (nvml_gpm_sample sample))
{
    (void)sample;
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpmSampleGet, (nvml_device d, nvml_gpm_sample sample))
{
    (void)d;
    (void)sample;
    return answer(NVML_SUCCESS);
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
        get->metrics[i].value = is("measures") ? -1e300 : 50;
        mad_touch(&get->metrics[i], sizeof(get->metrics[i]));
    }
    return answer(NVML_SUCCESS);
}
