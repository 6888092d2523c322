/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: utilisation, temperature, clocks, process samples: steady, but for the time that CUDA's
 * kernels take. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda_timeslice.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

#define MIB 1048576ULL

/* With MIG on this figure does not exist, neither for the card nor for an instance. */
static int without_mig(const struct call *c)
{
    return c->gpu->mig_current ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* --- Time that kernels take --- */

/* Who looks at the cards' time slices. False: there are none, as no kernel ran. */
static bool open_slices(struct timeslices *t)
{
    char path[PATH_MAX];
    const char *state = session_state()->path;
    *t = (struct timeslices){.mu = PTHREAD_MUTEX_INITIALIZER};
    if (snprintf(path, sizeof(path), "%s.work", state) >= (int)sizeof(path))
        return false;
    return *state != '\0' && access(path, F_OK) == 0 && timeslices_open(t, state);
}

static uint32_t busy_percent(uint32_t gpu, uint32_t row)
{
    struct timeslices t;
    uint32_t percent = 0;
    if (!open_slices(&t))
        return 0;
    timeslices_lock(&t);
    percent = timeslices_percent(&t, gpu, row);
    timeslices_unlock(&t);
    timeslices_forget(&t);
    return percent;
}

static unsigned int gpu_percent(const struct call *c)
{
    uint32_t busy = busy_percent(c->gpu_index, TIMESLICE_ALL);
    return busy > c->gpu->utilization_pct ? busy : c->gpu->utilization_pct;
}

/* Of a process that simctl attached: one of so many. */
static unsigned int share_of(const struct call *c, const struct hw_proc *p, unsigned int n)
{
    return p->cuda > 0 ? busy_percent(p->gpu, p->cuda - 1) : c->gpu->utilization_pct / n;
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
        *utilization = (nvmlUtilization_t){.gpu = gpu_percent(&c)};
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
        *temp = c.gpu->temperature_c;
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
        temperature->temperature = (int)c.gpu->temperature_c;
    return call_leave(&c, rc);
}

/* Energy since the boot of this machine, at idle power. */
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    struct call c = {.id = CALL_nvmlDeviceGetTotalEnergyConsumption};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && energy == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        struct timespec ts;
        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        *energy = (unsigned long long)ts.tv_sec * hw_model(c.gpu)->power_limit_w * 100;
    }
    return call_leave(&c, rc);
}

/* Graphics, SM and video share one clock here; memory has its own. */
static int clock_of(unsigned int call, nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    struct call c = {.id = call};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (clock == NULL || type > 3))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *clock = type == 2 ? hw_model(c.gpu)->clock_memory_mhz : hw_model(c.gpu)->clock_sm_mhz;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetClockInfo, device, type, clock);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    return clock_of(CALL_nvmlDeviceGetMaxClockInfo, device, type, clock);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter,
                                         unsigned int *value)
{
    struct call c = {.id = CALL_nvmlDeviceGetPcieThroughput};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (value == NULL || counter > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *value = 0;
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
                                                                 .smUtil = share_of(&c, p, n)};
    }
    return call_leave(&c, rc);
}
