/* SPDX-License-Identifier: Apache-2.0 */
/* Six threads of one process on two cards, initialising and shutting down as they please; for TSan.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/nvml_calls.h"

enum { THREADS = 6, ROUNDS = 50 };

static void recut(nvmlDevice_t device)
{
    nvmlGpuInstance_t gi = NULL;
    nvmlComputeInstance_t ci = NULL;
    if (nvmlDeviceCreateGpuInstance(device, 19, &gi) != NVML_SUCCESS)
        return;
    if (nvmlGpuInstanceCreateComputeInstance(gi, 0, &ci) == NVML_SUCCESS)
        (void)nvmlComputeInstanceDestroy(ci);
    (void)nvmlGpuInstanceDestroy(gi);
}

static void wait_for_events(nvmlDevice_t device)
{
    nvmlEventSet_t events = NULL;
    nvmlEventData_t event = {0};
    if (nvmlEventSetCreate(&events) != NVML_SUCCESS)
        return;
    (void)nvmlDeviceRegisterEvents(device, EVENT_MIG_CONFIG_CHANGE, events);
    (void)nvmlEventSetWait_v2(events, &event, 1);
    (void)nvmlEventSetFree(events);
}

static void *work(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        nvmlDevice_t device = NULL;
        nvmlReturn_t activation = NVML_SUCCESS;
        (void)nvmlInit_v2();
        (void)nvmlDeviceGetHandleByIndex_v2((unsigned int)(uintptr_t)arg % 2, &device);
        (void)nvmlDeviceSetMigMode(device, 1, &activation);
        recut(device);
        wait_for_events(device);
        (void)nvmlShutdown();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    /* All references are gone: the next call is refused. */
    unsigned int count = 0;
    return nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED ? 0 : 1;
}
