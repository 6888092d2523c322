/* SPDX-License-Identifier: Apache-2.0 */
/* -L, -mig and --gpu-reset. */
#include <stdio.h>
#include <string.h>

#include "sim/smi/smi.h"

static void list_mig(const struct smi_gpu *gpu)
{
    unsigned int max = 0;
    char name[96];
    char uuid[96];
    (void)nvmlDeviceGetMaxMigDeviceCount(gpu->device, &max);
    for (unsigned int i = 0; i < max; i++) {
        nvmlDevice_t mig = NULL;
        if (nvmlDeviceGetMigDeviceHandleByIndex(gpu->device, i, &mig) != NVML_SUCCESS)
            continue;
        (void)nvmlDeviceGetName(mig, name, sizeof(name));
        (void)nvmlDeviceGetUUID(mig, uuid, sizeof(uuid));
        const char *profile = strstr(name, "MIG ");
        (void)printf("  MIG %-14s  Device %2u: (UUID: %s)\n", profile != NULL ? profile + 4 : name,
                     i, uuid);
    }
}

int smi_list(const struct smi *s)
{
    for (unsigned int i = 0; i < s->count; i++) {
        const struct smi_gpu *gpu = &s->gpus[i];
        (void)printf("GPU %u: %s (UUID: %s)\n", gpu->index, gpu->name, gpu->uuid);
        list_mig(gpu);
    }
    return 0;
}

static int set_mig_one(const struct smi_gpu *gpu, unsigned int mode)
{
    const char *verb = mode ? "enable" : "disable";
    nvmlReturn_t activation = NVML_SUCCESS;
    int rc = nvmlDeviceSetMigMode(gpu->device, mode, &activation);
    if (rc != NVML_SUCCESS) {
        (void)printf("Unable to %s MIG Mode for GPU %s: %s\n", verb, gpu->bus_id,
                     nvmlErrorString(rc));
        return rc;
    }
    if (activation == NVML_SUCCESS) {
        (void)printf("%s MIG Mode for GPU %s\n", mode ? "Enabled" : "Disabled", gpu->bus_id);
        return 0;
    }
    (void)printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n", verb, gpu->bus_id,
                 nvmlErrorString(activation));
    (void)printf("Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on "
                 "GPU %s\n",
                 gpu->bus_id);
    return 0;
}

int smi_set_mig(const struct smi *s, const char *mode)
{
    bool on = strcmp(mode, "1") == 0 || strcmp(mode, "ENABLED") == 0;
    if (!on && strcmp(mode, "0") != 0 && strcmp(mode, "DISABLED") != 0)
        return -1;
    int worst = 0;
    for (unsigned int i = 0; i < s->count; i++) {
        int rc = set_mig_one(&s->gpus[i], on);
        worst = rc != 0 ? rc : worst;
    }
    if (worst == 0)
        (void)printf("All done.\n");
    return worst;
}

int smi_reset(const struct smi *s)
{
    unsigned int busy = 0;
    int worst = 0;
    for (unsigned int i = 0; i < s->count; i++) {
        int rc = cleaveSimDeviceReset(s->gpus[i].device);
        worst = rc != 0 ? rc : worst;
        if (rc == NVML_SUCCESS) {
            (void)printf("GPU %s was successfully reset.\n", s->gpus[i].bus_id);
            continue;
        }
        if (busy++ == 0)
            (void)printf("The following GPUs could not be reset:\n");
        (void)printf("  GPU %s: %s\n", s->gpus[i].bus_id, nvmlErrorString(rc));
    }
    if (worst == NVML_ERROR_IN_USE)
        (void)printf("\n%u device%s currently being used by one or more other processes (e.g., "
                     "Fabric Manager, CUDA application, graphics application such as an X server, "
                     "or a monitoring application such as another instance of nvidia-smi). Please "
                     "first kill all processes using %s and all compute applications running in "
                     "the system.\n",
                     busy, busy == 1 ? " is" : "s are",
                     busy == 1 ? "this device" : "these devices");
    if (worst == 0)
        (void)printf("All done.\n");
    return worst;
}
