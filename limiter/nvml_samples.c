/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: what processes make a card do. Samples of others than the container's are left out, and
 * accounting, which tells of processes that have ended, is off.
 *
 * Assumed: the real library has the pids of samples as this PID namespace has them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "limiter/nvml_card.h"
#include "limiter/nvml_real.h"
#include "limiter/share.h"

static bool is_own(const struct share_process *own, unsigned int n, uint32_t pid)
{
    for (unsigned int i = 0; i < n; i++) {
        if (own[i].pid == pid)
            return true;
    }
    return false;
}

/* Keeps the container's own of n entries of this size, whose pid stands at an offset. Returns how
 * many they are; behind them nothing is left. */
static unsigned int keep_own(int card, void *entries, unsigned int n, size_t size, size_t pid_at)
{
    struct share_process own[REGION_MAX_PROCESSES];
    unsigned int n_own = share_processes(card, own, REGION_MAX_PROCESSES), kept = 0;
    unsigned char *at = entries;
    for (unsigned int i = 0; i < n; i++) {
        uint32_t pid = 0;
        memcpy(&pid, at + i * size + pid_at, sizeof(pid));
        if (is_own(own, n_own, pid))
            memmove(at + size * kept++, at + size * i, size);
    }
    memset(at + size * kept, 0, size * (n - kept));
    return kept;
}

#define KEEP_OWN(card, entries, n)                                                                 \
    keep_own(card, entries, n, sizeof(*(entries)), offsetof(__typeof__(*(entries)), pid))

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct nvml_sample *samples,
                                             unsigned int *count, unsigned long long seen)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetProcessUtilization(device, samples, count, seen);
    if (rc != NVML_SUCCESS || card < 0 || samples == NULL)
        return rc;
    *count = KEEP_OWN(card, samples, *count);
    return *count > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   struct nvml_samples *samples)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetProcessesUtilizationInfo(device, samples);
    if (rc != NVML_SUCCESS || card < 0 || samples->at == NULL)
        return rc;
    samples->n = KEEP_OWN(card, samples->at, samples->n);
    return samples->n > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* --- Accounting --- */

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, unsigned int *mode)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetAccountingMode(device, mode);
    if (rc == NVML_SUCCESS && card >= 0)
        *mode = 0;
    return rc;
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count,
                                         unsigned int *pids)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS && card >= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return rc == NVML_SUCCESS ? nvml_real.nvmlDeviceGetAccountingPids(device, count, pids) : rc;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, void *stats)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS && card >= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return rc == NVML_SUCCESS ? nvml_real.nvmlDeviceGetAccountingStats(device, pid, stats) : rc;
}
