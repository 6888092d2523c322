/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: a card's memory and processes, as a container's share of it. Who asks is a reader: it takes
 * no slot of the share.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "limiter/nvml_real.h"
#include "limiter/share.h"

/* --- The card --- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* "GPU-" and 32 digits, with dashes between. */
static bool parse_uuid(const char *text, uint8_t ret[16])
{
    if (strncmp(text, "GPU-", 4) != 0)
        return false;
    text += 4;
    for (unsigned int i = 0; i < 16; i++) {
        text += *text == '-';
        int high = digit_of(text[0]), low = high < 0 ? -1 : digit_of(text[1]);
        if (low < 0)
            return false;
        ret[i] = (uint8_t)(high * 16 + low);
        text += 2;
    }
    return *text == '\0';
}

/* -1: none of the share's, which is shown as it is. */
static int card_of(nvmlDevice device)
{
    char text[NVML_UUID_BYTES] = "";
    uint8_t uuid[16];
    if (nvml_real.nvmlDeviceGetUUID(device, text, sizeof(text)) != NVML_SUCCESS ||
        !parse_uuid(text, uuid))
        return -1;
    return share_card_of(uuid);
}

/* Without terms nothing is told of memory. */
static nvmlReturn find(nvmlDevice device, int *ret_card)
{
    *ret_card = -1;
    if (!share_open())
        return NVML_ERROR_NO_PERMISSION;
    *ret_card = card_of(device);
    return NVML_SUCCESS;
}

/* --- Memory --- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void narrow(int card, uint64_t *total, uint64_t *free, uint64_t *used)
{
    uint64_t limit = __atomic_load_n(&share_terms(card)->memory_bytes, __ATOMIC_RELAXED);
    if (limit >= *total)
        return;
    *total = limit;
    *used = least(share_seen(card), limit);
    *free = least(*free, limit - *used);
}

nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice device, struct nvml_memory *memory)
{
    int card = -1;
    nvmlReturn rc = find(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetMemoryInfo(device, memory);
    if (rc == NVML_SUCCESS && card >= 0)
        narrow(card, &memory->total, &memory->free, &memory->used);
    return rc;
}

nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, struct nvml_memory_v2 *memory)
{
    int card = -1;
    nvmlReturn rc = find(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetMemoryInfo_v2(device, memory);
    if (rc != NVML_SUCCESS || card < 0)
        return rc;
    narrow(card, &memory->total, &memory->free, &memory->used);
    memory->reserved = 0;
    return rc;
}

/* --- Processes --- */

struct list {
    struct share_process items[REGION_MAX_PROCESSES];
    unsigned int n;
};

/* How many fit: with INSUFFICIENT_SIZE none, and *count says how many there are. */
static nvmlReturn list_own(int card, unsigned int *count, const void *room, struct list *ret)
{
    ret->n = 0;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int n = share_processes(card, ret->items, REGION_MAX_PROCESSES);
    bool fits = n == 0 || (room != NULL && n <= *count);
    *count = n;
    if (!fits)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    ret->n = n;
    return NVML_SUCCESS;
}

static nvmlReturn list_v1(int card, unsigned int *count, struct nvml_process_v1 *list)
{
    struct list own;
    nvmlReturn rc = list_own(card, count, list, &own);
    for (unsigned int i = 0; i < own.n; i++)
        list[i] = (struct nvml_process_v1){own.items[i].pid, own.items[i].bytes};
    return rc;
}

static nvmlReturn list_v2(int card, unsigned int *count, struct nvml_process *list)
{
    struct list own;
    nvmlReturn rc = list_own(card, count, list, &own);
    for (unsigned int i = 0; i < own.n; i++)
        list[i] = (struct nvml_process){own.items[i].pid, own.items[i].bytes, NVML_NO_INSTANCE,
                                        NVML_NO_INSTANCE};
    return rc;
}

static nvmlReturn none(unsigned int *count)
{
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

#define OF_SHARE(symbol, type, shown)                                                              \
    nvmlReturn symbol(nvmlDevice device, unsigned int *count, type *list)                          \
    {                                                                                              \
        int card = -1;                                                                             \
        nvmlReturn rc = find(device, &card);                                                       \
        if (rc != NVML_SUCCESS)                                                                    \
            return rc;                                                                             \
        return card >= 0 ? (shown) : nvml_real.symbol(device, count, list);                        \
    }

OF_SHARE(nvmlDeviceGetComputeRunningProcesses, struct nvml_process_v1, list_v1(card, count, list))
OF_SHARE(nvmlDeviceGetComputeRunningProcesses_v2, struct nvml_process, list_v2(card, count, list))
OF_SHARE(nvmlDeviceGetComputeRunningProcesses_v3, struct nvml_process, list_v2(card, count, list))
OF_SHARE(nvmlDeviceGetGraphicsRunningProcesses, struct nvml_process_v1, none(count))
OF_SHARE(nvmlDeviceGetGraphicsRunningProcesses_v2, struct nvml_process, none(count))
OF_SHARE(nvmlDeviceGetGraphicsRunningProcesses_v3, struct nvml_process, none(count))
OF_SHARE(nvmlDeviceGetMPSComputeRunningProcesses, struct nvml_process_v1, none(count))
OF_SHARE(nvmlDeviceGetMPSComputeRunningProcesses_v2, struct nvml_process, none(count))
OF_SHARE(nvmlDeviceGetMPSComputeRunningProcesses_v3, struct nvml_process, none(count))
OF_SHARE(nvmlDeviceGetAccountingPids, unsigned int, none(count))

/* What tells of processes by the host's numbers tells nothing here. */
#define OF_OTHERS(card, call, answer)                                                              \
    int card = -1;                                                                                 \
    nvmlReturn rc = find(device, &card);                                                           \
    if (rc != NVML_SUCCESS)                                                                        \
        return rc;                                                                                 \
    return card < 0 ? (call) : (answer)

nvmlReturn nvmlDeviceGetProcessUtilization(nvmlDevice device, void *samples, unsigned int *count,
                                           unsigned long long since)
{
    OF_OTHERS(card, nvml_real.nvmlDeviceGetProcessUtilization(device, samples, count, since),
              NVML_ERROR_NOT_FOUND);
}

nvmlReturn nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice device, void *info)
{
    OF_OTHERS(card, nvml_real.nvmlDeviceGetProcessesUtilizationInfo(device, info),
              NVML_ERROR_NOT_FOUND);
}

nvmlReturn nvmlDeviceGetRunningProcessDetailList(nvmlDevice device, void *list)
{
    OF_OTHERS(card, nvml_real.nvmlDeviceGetRunningProcessDetailList(device, list),
              NVML_ERROR_NOT_SUPPORTED);
}
