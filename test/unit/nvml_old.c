/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver's library as it was before most of what we call existed: old names, old structs, one
 * card with MIG on and nothing cut. Built as a shared object for nvml_test.
 */
#include <stdio.h>
#include <string.h>

#include "nodeagent/vendor/nvidia/nvml_abi.h"

nvml_ret nvmlInit(void);
nvml_ret nvmlShutdown(void);
nvml_ret nvmlDeviceGetCount(unsigned *count);
nvml_ret nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *ret);
nvml_ret nvmlDeviceGetUUID(nvml_device d, char *uuid, unsigned length);
nvml_ret nvmlDeviceGetPciInfo_v2(nvml_device d, struct nvml_pci_info *pci);
nvml_ret nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *memory);
nvml_ret nvmlDeviceGetMigMode(nvml_device d, unsigned *current, unsigned *pending);
nvml_ret nvmlDeviceGetGpuInstanceProfileInfo(nvml_device d, unsigned value,
                                             struct nvml_gi_profile *ret);
nvml_ret nvmlDeviceGetGpuInstancePossiblePlacements(nvml_device d, unsigned profile,
                                                    struct nvml_placement *at, unsigned *count);
nvml_ret nvmlDeviceGetGpuInstances(nvml_device d, unsigned profile, nvml_gi *ret, unsigned *count);

nvml_ret nvmlInit(void)
{
    return NVML_SUCCESS;
}

nvml_ret nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetCount(unsigned *count)
{
    *count = 1;
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *ret)
{
    static char card;
    *ret = (nvml_device)(void *)&card;
    return index == 0 ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

nvml_ret nvmlDeviceGetUUID(nvml_device d, char *uuid, unsigned length)
{
    (void)d;
    (void)snprintf(uuid, length, "GPU-old");
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetPciInfo_v2(nvml_device d, struct nvml_pci_info *pci)
{
    (void)d;
    *pci = (struct nvml_pci_info){.pciDeviceId = 0x20B210DE};
    (void)snprintf(pci->busId, sizeof(pci->busId), "00010000:07:00.0");
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *memory)
{
    (void)d;
    *memory = (struct nvml_memory){.total = 81920ULL << 20};
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetMigMode(nvml_device d, unsigned *current, unsigned *pending)
{
    (void)d;
    *current = *pending = NVML_MIG_ENABLE;
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetGpuInstanceProfileInfo(nvml_device d, unsigned value,
                                             struct nvml_gi_profile *ret)
{
    (void)d;
    memset(ret, 0, sizeof(*ret));
    switch (value) {
    case 0:
        *ret = (struct nvml_gi_profile){.id = 19, .sliceCount = 1, .instanceCount = 7};
        ret->memorySizeMB = 9856;
        return NVML_SUCCESS;
    case 2:
        *ret = (struct nvml_gi_profile){.id = 9, .sliceCount = 3, .instanceCount = 2};
        ret->memorySizeMB = 40192;
        return NVML_SUCCESS;
    case NVML_GI_1_SLICE_REV1:
        *ret = (struct nvml_gi_profile){.id = 20, .sliceCount = 1, .instanceCount = 1};
        ret->memorySizeMB = 9856;
        return NVML_SUCCESS;
    default:
        return value < NVML_GI_1_SLICE_REV2 ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
    }
}

nvml_ret nvmlDeviceGetGpuInstancePossiblePlacements(nvml_device d, unsigned profile,
                                                    struct nvml_placement *at, unsigned *count)
{
    (void)d;
    unsigned size = profile == 9 ? 4 : 1;
    *count = profile == 9 ? 2 : 7;
    for (unsigned i = 0; at && i < *count; i++)
        at[i] = (struct nvml_placement){.start = i * size, .size = size};
    return NVML_SUCCESS;
}

nvml_ret nvmlDeviceGetGpuInstances(nvml_device d, unsigned profile, nvml_gi *ret, unsigned *count)
{
    (void)d;
    (void)profile;
    (void)ret;
    *count = 0;
    return NVML_SUCCESS;
}
