/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: memory and processes. Contracts are NVML's own. */
#include <string.h>

#include "sim/mig.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

#define MIB 1048576ULL

struct memory {
    unsigned long long total, reserved, used;
};

static bool runs_on(const struct call *c, const struct hw_proc *p)
{
    return p->pid != 0 && p->gpu == c->gpu_index && (c->gi == NULL || p->gi == c->gi->id) &&
           (c->ci == NULL || p->ci == c->ci->id);
}

/* The instances of one GPU instance share its memory. */
static unsigned long long used_mib(const struct call *c)
{
    unsigned long long sum = 0;
    for (size_t i = 0; i < c->hw->proc_reach; i++) {
        const struct hw_proc *p = &c->hw->procs[i];
        if (p->pid != 0 && p->gpu == c->gpu_index && (c->gi == NULL || p->gi == c->gi->id))
            sum += p->memory_mib;
    }
    return sum;
}

static struct memory memory_of(const struct call *c)
{
    const struct model *m = hw_model(c->gpu);
    struct memory mem = {.total = m->memory_mib, .reserved = m->reserved_mib};
    if (c->gi != NULL)
        mem = (struct memory){.total = mig_profile_of(c->gpu, c->gi)->memory_mib};
    unsigned long long used = used_mib(c);
    mem.used = used < mem.total - mem.reserved ? used : mem.total - mem.reserved;
    return mem;
}

/* The first generation includes the driver's reserve in `used`. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    struct call c = {.id = CALL_nvmlDeviceGetMemoryInfo};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && memory == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        struct memory mem = memory_of(&c);
        memory->total = mem.total * MIB;
        memory->used = (mem.used + mem.reserved) * MIB;
        memory->free = memory->total - memory->used;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct call c = {.id = CALL_nvmlDeviceGetMemoryInfo_v2};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && memory == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && memory->version != NVML_STRUCT_VERSION(sizeof(*memory), 2U))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS) {
        struct memory mem = memory_of(&c);
        memory->total = mem.total * MIB;
        memory->reserved = mem.reserved * MIB;
        memory->used = mem.used * MIB;
        memory->free = memory->total - memory->reserved - memory->used;
    }
    return call_leave(&c, rc);
}

/* An instance's share of the window is that of its memory slices, less 1 MiB: nvidia-smi prints
 * 8191 MiB of an A100-40's 65536 for 1g.5gb, 32767 for 3g.20gb (MIG guide). */
static nvmlBAR1Memory_t bar1_of(const struct call *c)
{
    unsigned long long total = hw_model(c->gpu)->bar1_mib * MIB;
    if (c->gi == NULL)
        return (nvmlBAR1Memory_t){.bar1Total = total, .bar1Free = total - MIB, .bar1Used = MIB};
    total = total * c->gi->size / hw_model(c->gpu)->grid - MIB;
    return (nvmlBAR1Memory_t){.bar1Total = total, .bar1Free = total};
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
    struct call c = {.id = CALL_nvmlDeviceGetBAR1MemoryInfo};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && bar1Memory == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *bar1Memory = bar1_of(&c);
    return call_leave(&c, rc);
}

/* MIG on: each process has its instance. Off: none has one. */
static nvmlProcessInfo_t process_info(const struct hw_proc *p)
{
    return (nvmlProcessInfo_t){.pid = p->pid,
                               .usedGpuMemory = p->memory_mib * MIB,
                               .gpuInstanceId = p->gi,
                               .computeInstanceId = p->ci};
}

static unsigned int collect(const struct call *c, uint32_t kind, nvmlProcessInfo_t *out)
{
    unsigned int n = 0;
    for (size_t i = 0; i < c->hw->proc_reach; i++) {
        const struct hw_proc *p = &c->hw->procs[i];
        if (runs_on(c, p) && p->kind == kind)
            out[n++] = process_info(p);
    }
    return n;
}

/* Collects into `found`, and checks the caller's room by NVML's protocol. */
static int running(unsigned int call, nvmlDevice_t device, uint32_t kind, unsigned int *count,
                   const void *infos, nvmlProcessInfo_t *found)
{
    struct call c = {.id = call};
    unsigned int n = 0;
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (count == NULL || (infos == NULL && *count > 0)))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        n = collect(&c, kind, found);
        rc = n > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
        *count = n;
    }
    return call_leave(&c, rc);
}

static int running_v1(unsigned int call, nvmlDevice_t device, uint32_t kind, unsigned int *count,
                      nvmlProcessInfo_v1_t *infos)
{
    nvmlProcessInfo_t found[HW_MAX_PROCS];
    int rc = running(call, device, kind, count, infos, found);
    for (unsigned int i = 0; rc == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_v1_t){found[i].pid, found[i].usedGpuMemory};
    return rc;
}

static int running_v3(unsigned int call, nvmlDevice_t device, uint32_t kind, unsigned int *count,
                      nvmlProcessInfo_t *infos)
{
    nvmlProcessInfo_t found[HW_MAX_PROCS];
    int rc = running(call, device, kind, count, infos, found);
    for (unsigned int i = 0; rc == NVML_SUCCESS && i < *count; i++)
        infos[i] = found[i];
    return rc;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_t *infos)
{
    return running_v3(CALL_nvmlDeviceGetComputeRunningProcesses_v3, device, PROC_COMPUTE, infoCount,
                      infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_t *infos)
{
    return running_v3(CALL_nvmlDeviceGetGraphicsRunningProcesses_v3, device, PROC_GRAPHICS,
                      infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
                                                        unsigned int *infoCount,
                                                        nvmlProcessInfo_t *infos)
{
    return running_v3(CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3, device, PROC_MPS, infoCount,
                      infos);
}

ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3,
      (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos));
ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3,
      (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos));
ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3,
      (nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos));

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                  nvmlProcessInfo_v1_t *infos)
{
    return running_v1(CALL_nvmlDeviceGetComputeRunningProcesses_v3, device, PROC_COMPUTE, infoCount,
                      infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                   nvmlProcessInfo_v1_t *infos)
{
    return running_v1(CALL_nvmlDeviceGetGraphicsRunningProcesses_v3, device, PROC_GRAPHICS,
                      infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_v1_t *infos)
{
    return running_v1(CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3, device, PROC_MPS, infoCount,
                      infos);
}

/* The struct holds the list's room on entry and its length on return; modes are the process
 * kinds. */
static int fill_details(const struct call *c, nvmlProcessDetailList_t *list)
{
    nvmlProcessInfo_t found[HW_MAX_PROCS];
    if (list->version != NVML_STRUCT_VERSION(sizeof(*list), 1U))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (list->mode > PROC_MPS || (list->procArray == NULL && list->numProcArrayEntries > 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int n = collect(c, list->mode, found);
    unsigned int room = list->numProcArrayEntries;
    list->numProcArrayEntries = n;
    if (n > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n; i++)
        list->procArray[i] =
            (nvmlProcessDetail_v1_t){.pid = found[i].pid,
                                     .usedGpuMemory = found[i].usedGpuMemory,
                                     .gpuInstanceId = found[i].gpuInstanceId,
                                     .computeInstanceId = found[i].computeInstanceId};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   nvmlProcessDetailList_t *plist)
{
    struct call c = {.id = CALL_nvmlDeviceGetRunningProcessDetailList};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && plist == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = fill_details(&c, plist);
    return call_leave(&c, rc);
}
