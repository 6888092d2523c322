/* SPDX-License-Identifier: Apache-2.0 */
/* `nvidia-smi` without arguments: the cards, their MIG devices, the processes. */
#include <stdio.h>
#include <string.h>

#include "sim/smi/smi.h"

enum { MAX_PROCESSES = 256 };

static const char line[] =
    "+-----------------------------------------------------------------------------------------+\n";
static const char card_line[] =
    "+-----------------------------------------+------------------------+----------------------+\n";
static const char mig_line[] =
    "+------------------+----------------------------------+-----------+-----------------------+\n";

static void head(void)
{
    char driver[80] = "";
    int cuda = 0;
    char version[16];
    (void)nvmlSystemGetDriverVersion(driver, sizeof(driver));
    (void)nvmlSystemGetCudaDriverVersion_v2(&cuda);
    (void)snprintf(version, sizeof(version), "%d.%d", cuda / 1000, cuda % 1000 / 10);
    (void)fputs(line, stdout);
    (void)printf("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", driver, driver,
                 version);
    (void)fputs(card_line, stdout);
    (void)fputs(
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        "|                                         |                        |               MIG M. |\n"
        "|=========================================+========================+======================|\n",
        stdout);
}

/* An asterisk marks a pending other mode. */
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

static const char *compute_text(const struct smi_gpu *gpu)
{
    static const char *const names[] = {"Default", "E. Thread", "Prohibited", "E. Process"};
    unsigned int mode = 0;
    (void)nvmlDeviceGetComputeMode(gpu->device, &mode);
    return mode < 4 ? names[mode] : "?";
}

static void ecc_text(const struct smi_gpu *gpu, char *out, size_t size)
{
    unsigned long long count = 0;
    if (nvmlDeviceGetTotalEccErrors(gpu->device, 1, 0, &count) == NVML_SUCCESS)
        (void)snprintf(out, size, "%llu", count);
    else
        (void)snprintf(out, size, "Off");
}

/* MIG on: this figure does not exist. */
static void utilisation_text(const struct smi_gpu *gpu, char *out, size_t size)
{
    nvmlUtilization_t u = {0};
    if (nvmlDeviceGetUtilizationRates(gpu->device, &u) == NVML_SUCCESS)
        (void)snprintf(out, size, "%u%%", u.gpu);
    else
        (void)snprintf(out, size, "N/A");
}

static void card(const struct smi_gpu *gpu)
{
    unsigned int temperature = 0;
    unsigned int power = 0;
    unsigned int limit = 0;
    unsigned int persistence = 0;
    nvmlMemory_t memory = {0};
    char ecc[24];
    char used[8];
    ecc_text(gpu, ecc, sizeof(ecc));
    utilisation_text(gpu, used, sizeof(used));
    (void)nvmlDeviceGetTemperature(gpu->device, 0, &temperature);
    (void)nvmlDeviceGetPowerUsage(gpu->device, &power);
    (void)nvmlDeviceGetEnforcedPowerLimit(gpu->device, &limit);
    (void)nvmlDeviceGetPersistenceMode(gpu->device, &persistence);
    (void)nvmlDeviceGetMemoryInfo(gpu->device, &memory);
    (void)printf("| %3u  %-30.30s %-3s | %18s Off | %20s |\n", gpu->index, gpu->name,
                 persistence ? "On" : "Off", gpu->bus_id, ecc);
    (void)printf("| N/A  %3uC    P0          %5uW / %4uW | %7lluMiB / %6lluMiB | %7s %12s |\n",
                 temperature, power / 1000, limit / 1000, memory.used >> 20, memory.total >> 20,
                 used, compute_text(gpu));
    (void)printf("| %39s | %22s | %20s |\n", "", "", mig_text(gpu));
    (void)fputs(card_line, stdout);
}

static void mig_device(const struct smi_gpu *gpu, nvmlDevice_t device, unsigned int index)
{
    unsigned int gi = 0;
    unsigned int ci = 0;
    nvmlMemory_t memory = {0};
    nvmlDeviceAttributes_t a = {0};
    (void)nvmlDeviceGetGpuInstanceId(device, &gi);
    (void)nvmlDeviceGetComputeInstanceId(device, &ci);
    (void)nvmlDeviceGetMemoryInfo(device, &memory);
    (void)nvmlDeviceGetAttributes_v2(device, &a);
    (void)printf(
        "| %2u  %3u %3u %3u  | %18lluMiB / %5lluMiB | %3u     0 | %2u %3u  %3u  %3u  %3u |\n",
        gpu->index, gi, ci, index, memory.used >> 20, memory.total >> 20, a.multiprocessorCount,
        a.sharedCopyEngineCount, a.sharedEncoderCount, a.sharedDecoderCount, a.sharedOfaCount,
        a.sharedJpegCount);
    (void)fputs(mig_line, stdout);
}

static void mig_devices(const struct smi *s)
{
    unsigned int rows = 0;
    for (unsigned int i = 0; i < s->count; i++) {
        unsigned int max = 0;
        (void)nvmlDeviceGetMaxMigDeviceCount(s->gpus[i].device, &max);
        for (unsigned int index = 0; index < max; index++) {
            nvmlDevice_t device = NULL;
            if (nvmlDeviceGetMigDeviceHandleByIndex(s->gpus[i].device, index, &device) !=
                NVML_SUCCESS)
                continue;
            if (rows++ == 0)
                (void)printf(
                    "\n%s"
                    "| MIG devices:                                                                            |\n"
                    "%s"
                    "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |\n"
                    "|      ID  ID  Dev |                                  | SM     Unc| CE ENC  DEC  OFA  JPG |\n"
                    "|==================+==================================+===========+=======================|\n",
                    line, mig_line);
            mig_device(&s->gpus[i], device, index);
        }
    }
}

static void instance_text(unsigned int id, char *out, size_t size)
{
    if (id == NVML_NO_INSTANCE)
        (void)snprintf(out, size, "N/A");
    else
        (void)snprintf(out, size, "%u", id);
}

static void process(const struct smi_gpu *gpu, const nvmlProcessInfo_t *p, const char *type)
{
    char name[64] = "";
    char gi[16];
    char ci[16];
    (void)nvmlSystemGetProcessName(p->pid, name, sizeof(name));
    instance_text(p->gpuInstanceId, gi, sizeof(gi));
    instance_text(p->computeInstanceId, ci, sizeof(ci));
    (void)printf("| %4u %4s %4s %16u %6s   %-33.33s %9lluMiB |\n", gpu->index, gi, ci, p->pid, type,
                 name, p->usedGpuMemory >> 20);
}

typedef nvmlReturn_t running_fn(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);

static unsigned int processes(const struct smi_gpu *gpu, running_fn *running, const char *type)
{
    nvmlProcessInfo_t infos[MAX_PROCESSES];
    unsigned int count = MAX_PROCESSES;
    if (running(gpu->device, &count, infos) != NVML_SUCCESS)
        return 0;
    for (unsigned int i = 0; i < count; i++)
        process(gpu, &infos[i], type);
    return count;
}

int smi_table(const struct smi *s)
{
    unsigned int running = 0;
    head();
    for (unsigned int i = 0; i < s->count; i++)
        card(&s->gpus[i]);
    mig_devices(s);
    (void)printf("\n%s", line);
    (void)fputs(
        "| Processes:                                                                              |\n"
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
        "|        ID   ID                                                               Usage      |\n"
        "|=========================================================================================|\n",
        stdout);
    for (unsigned int i = 0; i < s->count; i++) {
        running += processes(&s->gpus[i], nvmlDeviceGetComputeRunningProcesses_v3, "C");
        running += processes(&s->gpus[i], nvmlDeviceGetGraphicsRunningProcesses_v3, "G");
        running += processes(&s->gpus[i], nvmlDeviceGetMPSComputeRunningProcesses_v3, "M+C");
    }
    if (running == 0)
        (void)printf("|  No running processes found %60s|\n", "");
    (void)fputs(line, stdout);
    return 0;
}
