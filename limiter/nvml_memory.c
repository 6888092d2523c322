/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: memory. A card has as much as the share, and its processes have taken all that is used. */
#include "limiter/nvml_card.h"
#include "limiter/nvml_real.h"
#include "limiter/share.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The card may have less left than the share: where it is shared more than once, or others take
 * more than theirs. Then `free` is not what `used` leaves of `total`. */
static void narrow(int card, uint64_t *total, uint64_t *used, uint64_t *free)
{
    uint64_t limit = __atomic_load_n(&share_terms(card)->memory_bytes, __ATOMIC_RELAXED);
    *total = least(limit, *total);
    *used = least(share_taken(card), *total);
    *free = least(*total - *used, *free);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetMemoryInfo(device, memory);
    if (rc == NVML_SUCCESS && card >= 0)
        narrow(card, &memory->total, &memory->used, &memory->free);
    return rc;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_v2 *memory)
{
    int card = -1;
    nvmlReturn_t rc = nvml_card_of(device, &card);
    if (rc == NVML_SUCCESS)
        rc = nvml_real.nvmlDeviceGetMemoryInfo_v2(device, memory);
    if (rc == NVML_SUCCESS && card >= 0) {
        narrow(card, &memory->total, &memory->used, &memory->free);
        memory->reserved = 0;
    }
    return rc;
}
