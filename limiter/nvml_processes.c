/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: which processes run on a card. They are the container's own, with their own pids. */
#include <stdbool.h>
#include <stddef.h>

#include "limiter/nvml_card.h"
#include "limiter/nvml_real.h"
#include "limiter/share.h"

enum { COMPUTE = 0 };

struct processes {
    struct share_process at[REGION_MAX_PROCESSES];
    unsigned int n;
};

/* None draws, and none is told to be MPS's. */
static void list(int card, bool is_compute, struct processes *ret)
{
    ret->n = is_compute ? share_processes(card, ret->at, REGION_MAX_PROCESSES) : 0;
}

/* What the real library says of a call with no room: an error, or what it would have, which is not
 * told. */
static bool is_error(nvmlReturn_t rc)
{
    return rc != NVML_SUCCESS && rc != NVML_ERROR_INSUFFICIENT_SIZE;
}

/* NVML's protocol: how many there are goes to `count`, into which the room was written. */
static nvmlReturn_t fit(unsigned int n, unsigned int *count)
{
    unsigned int room = *count;
    *count = n;
    return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* --- Lists --- */

typedef void write_fn(void *processes, unsigned int i, const struct share_process *p);

static void write_v1(void *processes, unsigned int i, const struct share_process *p)
{
    struct nvml_process_v1 *at = processes;
    at[i] = (struct nvml_process_v1){.pid = p->pid, .bytes = p->bytes};
}

static void write_v2(void *processes, unsigned int i, const struct share_process *p)
{
    struct nvml_process *at = processes;
    at[i] = (struct nvml_process){.pid = p->pid,
                                  .bytes = p->bytes,
                                  .gpu_instance = NVML_NO_INSTANCE,
                                  .compute_instance = NVML_NO_INSTANCE};
}

static nvmlReturn_t answer(int card, bool is_compute, unsigned int *count, void *processes,
                           write_fn *write)
{
    struct processes found;
    if (count == NULL || (processes == NULL && *count > 0))
        return NVML_ERROR_INVALID_ARGUMENT;
    list(card, is_compute, &found);
    nvmlReturn_t rc = fit(found.n, count);
    for (unsigned int i = 0; rc == NVML_SUCCESS && i < found.n; i++)
        write(processes, i, &found.at[i]);
    return rc;
}

static nvmlReturn_t running(nvml_list_fn *real, nvmlDevice_t device, bool is_compute,
                            unsigned int *count, void *processes, write_fn *write)
{
    int card = -1;
    unsigned int none = 0;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    if (card < 0)
        return real(device, count, processes);
    rc = real(device, &none, /* processes= */ NULL);
    return is_error(rc) ? rc : answer(card, is_compute, count, processes, write);
}

#define RUNNING(symbol, is_compute, write)                                                         \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, void *processes)                 \
    {                                                                                              \
        return running(nvml_real.symbol, device, is_compute, count, processes, write);             \
    }

RUNNING(nvmlDeviceGetComputeRunningProcesses, true, write_v1)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, true, write_v2)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, true, write_v2)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, false, write_v1)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v2, false, write_v2)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, false, write_v2)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, false, write_v1)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v2, false, write_v2)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, false, write_v2)

/* --- The list that tells more --- */

static nvmlReturn_t answer_details(int card, struct nvml_process_details *ret)
{
    struct processes found;
    if (ret->at == NULL && ret->n > 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    list(card, ret->mode == COMPUTE, &found);
    nvmlReturn_t rc = fit(found.n, &ret->n);
    for (unsigned int i = 0; rc == NVML_SUCCESS && i < found.n; i++)
        ret->at[i] = (struct nvml_process_detail){.pid = found.at[i].pid,
                                                  .bytes = found.at[i].bytes,
                                                  .gpu_instance = NVML_NO_INSTANCE,
                                                  .compute_instance = NVML_NO_INSTANCE};
    return rc;
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   struct nvml_process_details *list)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc != NVML_SUCCESS)
        return rc;
    if (card < 0 || list == NULL)
        return nvml_real.nvmlDeviceGetRunningProcessDetailList(device, list);
    struct nvml_process_details none = {.version = list->version, .mode = list->mode};
    rc = nvml_real.nvmlDeviceGetRunningProcessDetailList(device, &none);
    return is_error(rc) ? rc : answer_details(card, list);
}
