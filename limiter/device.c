/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/device.h"

#include <pthread.h>
#include <stdbool.h>

#include "limiter/live_contexts.h"
#include "limiter/real.h"
#include "limiter/share.h"

enum { MAX_DEVICES = 64 };

/* Written once, before any context can be made; until then no device is one of the share's. */
static int8_t cards[MAX_DEVICES] = {[0 ... MAX_DEVICES - 1] = -1};
static int count;
static bool is_alone; /* there is one device */
static bool is_read;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* Locked. A device that cannot be told is none of the share's. */
static void read_all(int n)
{
    for (int i = 0; i < n && i < MAX_DEVICES; i++) {
        CUdevice device = 0;
        CUuuid uuid = {0};
        if (also.cuDeviceGet(&device, i) != CUDA_SUCCESS || device < 0 || device >= MAX_DEVICES)
            continue;
        if (also.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
            cards[device] = (int8_t)share_card_of(uuid.bytes);
    }
    count = n < MAX_DEVICES ? n : MAX_DEVICES;
    is_alone = n == 1;
    is_read = true;
}

/* Every library of a program initialises CUDA anew; the devices stay what they are. */
void devices_read(void)
{
    int n = 0;
    (void)pthread_mutex_lock(&mu);
    if (!is_read && also.cuDeviceGetCount(&n) == CUDA_SUCCESS)
        read_all(n);
    (void)pthread_mutex_unlock(&mu);
}

int devices_count(void)
{
    return count;
}

int card_of_device(CUdevice device)
{
    return device >= 0 && device < MAX_DEVICES ? cards[device] : -1;
}

/* A context that was not made by calls that we know (of graphics, green ones) may be of any device,
 * and when it ends is not known. */
static CUresult look_up(struct here *ret)
{
    CUdevice device = 0;
    int known = live_contexts_card(ret->context);
    if (known != LIVE_CONTEXTS_UNKNOWN) {
        ret->card = known;
        return CUDA_SUCCESS;
    }
    CUresult rc = also.cuCtxGetDevice(&device);
    if (rc == CUDA_SUCCESS)
        ret->card = card_of_device(device);
    ret->is_unknown = true;
    return rc;
}

/* With one device its card is known; a thread without a context is refused by the call itself. */
CUresult here_now(struct here *ret)
{
    *ret = (struct here){.card = -1};
    if (!share_is_attached())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult rc = also.cuCtxGetCurrent(&ret->context);
    if (rc != CUDA_SUCCESS || !is_alone || ret->context != live_contexts_only())
        return rc == CUDA_SUCCESS ? look_up(ret) : rc;
    ret->card = cards[0];
    return CUDA_SUCCESS;
}
