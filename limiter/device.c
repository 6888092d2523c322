/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/device.h"

#include <string.h>

#include "limiter/real.h"
#include "limiter/share.h"

enum { MAX_DEVICES = 64 };

/* Written once, before any context can be made. */
static int8_t cards[MAX_DEVICES];

/* A device that cannot be told is none of the share's. */
void devices_read(void)
{
    int n = 0;
    memset(cards, -1, sizeof(cards));
    if (also.cuDeviceGetCount(&n) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < n && i < MAX_DEVICES; i++) {
        CUdevice device = 0;
        CUuuid uuid = {0};
        if (also.cuDeviceGet(&device, i) != CUDA_SUCCESS || device < 0 || device >= MAX_DEVICES)
            continue;
        if (also.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
            cards[device] = (int8_t)share_card_of(uuid.bytes);
    }
}

int card_of_device(CUdevice device)
{
    return device >= 0 && device < MAX_DEVICES ? cards[device] : -1;
}

CUresult here_now(struct here *ret)
{
    CUdevice device = 0;
    *ret = (struct here){.card = -1};
    if (!share_is_attached())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult rc = also.cuCtxGetCurrent(&ret->context);
    if (rc == CUDA_SUCCESS)
        rc = also.cuCtxGetDevice(&device);
    if (rc == CUDA_SUCCESS)
        ret->card = card_of_device(device);
    return rc;
}
