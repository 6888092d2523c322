/* SPDX-License-Identifier: Apache-2.0 */
/* The plain table, -L, -mig and --gpu-reset. */
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

static const char *mig_text(const struct smi_gpu *gpu)
{
    unsigned int current = 0;
    unsigned int pending = 0;
    if (nvmlDeviceGetMigMode(gpu->device, &current, &pending) != NVML_SUCCESS)
        return "N/A";
    if (current != pending)
        return current ? "Enabled*" : "Disabled*";
    return current ? "Enabled" : "Disabled";
}

static void table_row(const struct smi_gpu *gpu)
{
    unsigned int temperature = 0;
    unsigned int power = 0;
    unsigned int limit = 0;
    unsigned int persistence = 0;
    nvmlMemory_t memory = {0};
    (void)nvmlDeviceGetTemperature(gpu->device, 0, &temperature);
    (void)nvmlDeviceGetPowerUsage(gpu->device, &power);
    (void)nvmlDeviceGetEnforcedPowerLimit(gpu->device, &limit);
    (void)nvmlDeviceGetPersistenceMode(gpu->device, &persistence);
    (void)nvmlDeviceGetMemoryInfo(gpu->device, &memory);
    (void)printf("| %3u  %-27.27s %-5s | %-16s     |\n", gpu->index, gpu->name,
                 persistence ? "On" : "Off", gpu->bus_id);
    (void)printf("|      %3uC   %4uW / %4uW%17s | %6lluMiB / %6lluMiB |  MIG %s\n", temperature,
                 power / 1000, limit / 1000, "", memory.used >> 20, memory.total >> 20,
                 mig_text(gpu));
}

static void processes(const struct smi_gpu *gpu, unsigned int *ret_count)
{
    static nvmlProcessInfo_t infos[256];
    unsigned int count = sizeof(infos) / sizeof(infos[0]);
    char name[64];
    if (nvmlDeviceGetComputeRunningProcesses_v3(gpu->device, &count, infos) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < count; i++) {
        bool inside = infos[i].gpuInstanceId != NVML_NO_INSTANCE;
        (void)nvmlSystemGetProcessName(infos[i].pid, name, sizeof(name));
        (void)printf("| %4u   %3s  %3s  %8u      C   %-28.28s %7lluMiB |\n", gpu->index,
                     inside ? "" : "N/A", inside ? "" : "N/A", infos[i].pid, name,
                     infos[i].usedGpuMemory >> 20);
        if (inside)
            (void)printf("|        GI %u, CI %u\n", infos[i].gpuInstanceId,
                         infos[i].computeInstanceId);
    }
    *ret_count += count;
}

int smi_table(const struct smi *s)
{
    static const char rule[] =
        "+------------------------------------------+----------------------+\n";
    char driver[80] = "";
    int cuda = 0;
    unsigned int running = 0;
    (void)nvmlSystemGetDriverVersion(driver, sizeof(driver));
    (void)nvmlSystemGetCudaDriverVersion_v2(&cuda);
    (void)fputs(rule, stdout);
    (void)printf("| NVIDIA-SMI %-12s Driver Version: %-12s CUDA Version: %d.%d |\n", driver, driver,
                 cuda / 1000, cuda % 1000 / 10);
    (void)fputs(rule, stdout);
    for (unsigned int i = 0; i < s->count; i++)
        table_row(&s->gpus[i]);
    (void)fputs(rule, stdout);
    (void)printf("| Processes:   GPU   GI   CI   PID   Type   Process name   GPU Memory |\n");
    for (unsigned int i = 0; i < s->count; i++)
        processes(&s->gpus[i], &running);
    if (running == 0)
        (void)printf("|  No running processes found                                     |\n");
    (void)fputs(rule, stdout);
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
