/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: utilisation, temperature, energy, clocks, process samples, as the work on the card has
 * them. */
#include <time.h>

#include "sim/nvml_calls.h"
#include "sim/nvml_load.h"

/* With MIG on this figure does not exist, neither for the card nor for an instance. */
static int without_mig(const struct call *c)
{
    return c->gpu->mig_current ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    struct call c = {.id = CALL_nvmlDeviceGetUtilizationRates};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && utilization == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = without_mig(&c);
    if (rc == NVML_SUCCESS)
        *utilization =
            (nvmlUtilization_t){.gpu = load_percent(&c), .memory = load_percent(&c) * 2 / 5};
    return call_leave(&c, rc);
}

static int idle_codec(unsigned int call, nvmlDevice_t device, unsigned int *utilization,
                      unsigned int *period_us)
{
    struct call c = {.id = call};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (utilization == NULL || period_us == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = without_mig(&c);
    if (rc == NVML_SUCCESS) {
        *utilization = 0;
        *period_us = 167000;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs)
{
    return idle_codec(CALL_nvmlDeviceGetEncoderUtilization, device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs)
{
    return idle_codec(CALL_nvmlDeviceGetDecoderUtilization, device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensorType,
                                      unsigned int *temp)
{
    struct call c = {.id = CALL_nvmlDeviceGetTemperature};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (temp == NULL || sensorType != 0))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *temp = load_celsius(&c);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    struct call c = {.id = CALL_nvmlDeviceGetTemperatureV};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && temperature == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && temperature->version != NVML_STRUCT_VERSION(sizeof(*temperature), 1U))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS && temperature->sensorType != 0)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        temperature->temperature = (int)load_celsius(&c);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    struct call c = {.id = CALL_nvmlDeviceGetTotalEnergyConsumption};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && energy == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *energy = load_energy_mj(&c);
    return call_leave(&c, rc);
}

static unsigned int most_mhz(const struct call *c, bool of_memory)
{
    return of_memory ? hw_model(c->gpu)->clock_memory_mhz : hw_model(c->gpu)->clock_sm_mhz;
}

static unsigned int mhz_now(const struct call *c, bool of_memory)
{
    return of_memory ? load_memory_mhz(c) : load_sm_mhz(c);
}

/* Graphics, SM and video share one clock here; memory has its own. */
static int clock_of(unsigned int call, nvmlDevice_t device, unsigned int type,
                    unsigned int (*mhz)(const struct call *c, bool of_memory), unsigned int *clock)
{
    struct call c = {.id = call};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (clock == NULL || type > 3))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *clock = mhz(&c, type == 2);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetClockInfo, device, type, mhz_now, clock);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetMaxClockInfo, device, type, most_mhz, clock);
}

/* Assumed: 1 GB/s from the card and 2 GB/s to it while it works. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter,
                                         unsigned int *value)
{
    struct call c = {.id = CALL_nvmlDeviceGetPcieThroughput};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (value == NULL || counter > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *value = load_percent(&c) * 10000 * (counter + 1);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
    struct call c = {.id = CALL_nvmlDeviceGetAddressingMode};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && mode == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && mode->version != NVML_STRUCT_VERSION(sizeof(*mode), 1U))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        mode->value = 0; /* neither HMM nor ATS */
    return call_leave(&c, rc);
}

static bool is_here(const struct call *c, const struct hw_proc *p)
{
    return p->pid != 0 && p->kind != PROC_HIDDEN && p->gpu == c->gpu_index;
}

static unsigned int count_here(const struct call *c)
{
    unsigned int n = 0;
    for (size_t i = 0; i < c->hw->proc_reach; i++)
        n += is_here(c, &c->hw->procs[i]);
    return n;
}

/* One sample for each process, taken now; none is newer than a time in the future. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *utilization,
                                             unsigned int *processSamplesCount,
                                             unsigned long long lastSeenTimeStamp)
{
    struct call c = {.id = CALL_nvmlDeviceGetProcessUtilization};
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    unsigned long long now = (unsigned long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && processSamplesCount == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = without_mig(&c);
    if (rc != NVML_SUCCESS)
        return call_leave(&c, rc);
    unsigned int n = now > lastSeenTimeStamp ? count_here(&c) : 0;
    if (n == 0)
        rc = NVML_ERROR_NOT_FOUND;
    else if (utilization == NULL || *processSamplesCount < n)
        rc = NVML_ERROR_INSUFFICIENT_SIZE;
    *processSamplesCount = n;
    for (size_t i = 0, at = 0; rc == NVML_SUCCESS && i < c.hw->proc_reach; i++) {
        const struct hw_proc *p = &c.hw->procs[i];
        if (is_here(&c, p))
            utilization[at++] = (nvmlProcessUtilizationSample_t){.pid = p->pid,
                                                                 .timeStamp = now,
                                                                 .smUtil = load_of_process(&c, p)};
    }
    return call_leave(&c, rc);
}
