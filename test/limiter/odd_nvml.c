/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real NVML for the limiter to stand in front of, that has what the simulated one lacks (samples of
 * all engines, accounting) and lacks what older ones do: most of it. The card's UUID is ODD_UUID, the
 * samples' processes are ODD_PIDS, comma-separated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/nvml_real.h"

LIMITER_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags);
LIMITER_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
LIMITER_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
LIMITER_API const char *nvmlErrorString(nvmlReturn_t code);

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    return code == NVML_SUCCESS ? "fine" : "odd";
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    *device = (nvmlDevice_t)(uintptr_t)(index + 4096);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    (void)device;
    (void)snprintf(uuid, length, "%s", getenv("ODD_UUID"));
    return NVML_SUCCESS;
}

/* The pids of the samples; how many. */
static unsigned int pids(unsigned int ret[16])
{
    unsigned int n = 0;
    for (const char *at = getenv("ODD_PIDS"); at != NULL && n < 16;) {
        ret[n++] = (unsigned int)strtoul(at, NULL, 10);
        at = strchr(at, ',');
        at += at != NULL;
    }
    return n;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   struct nvml_samples *samples)
{
    unsigned int of[16], n = pids(of), room = samples->n;
    (void)device;
    samples->n = n;
    if (samples->at == NULL || room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n; i++)
        samples->at[i] = (struct nvml_sample_v1){.time = i, .pid = of[i], .sm = of[i]};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, unsigned int *mode)
{
    (void)device;
    *mode = 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count,
                                         unsigned int *ret)
{
    unsigned int of[16];
    (void)device;
    *count = pids(of);
    memcpy(ret, of, *count * sizeof(of[0]));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, void *stats)
{
    (void)device;
    (void)pid;
    memset(stats, 1, 16);
    return NVML_SUCCESS;
}
