/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's changing calls, instruction by instruction (step.h). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/nvml_calls.h"
#include "test/sim/step.h"

static void must(int rc, const char *what)
{
    if (rc == NVML_SUCCESS)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, nvmlErrorString(rc));
    exit(1);
}

static void change(void)
{
    nvmlDevice_t device = NULL;
    nvmlGpuInstance_t gi = NULL;
    nvmlComputeInstance_t ci = NULL;
    nvmlReturn_t activation = NVML_SUCCESS;
    must(nvmlInit_v2(), "init");
    must(nvmlDeviceGetHandleByIndex_v2(0, &device), "handle");
    (void)raise(SIGSTOP);
    must(nvmlDeviceSetMigMode(device, 1, &activation), "mode");
    (void)raise(SIGSTOP);
    must(nvmlDeviceCreateGpuInstance(device, 9, &gi), "create a GPU instance");
    (void)raise(SIGSTOP);
    must(nvmlGpuInstanceCreateComputeInstance(gi, 2, &ci), "create a compute instance");
    (void)raise(SIGSTOP);
    must(nvmlComputeInstanceDestroy(ci), "destroy the compute instance");
    (void)raise(SIGSTOP);
    must(nvmlGpuInstanceDestroy(gi), "destroy the GPU instance");
    (void)raise(SIGSTOP);
}

int main(void)
{
    return step_main(change, 5);
}
