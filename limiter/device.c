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

int card_of_device(CUdevice device)
{
    return device >= 0 && device < MAX_DEVICES ? cards[device] : -1;
}

/* A context that was not made by calls that we know (of graphics, say) may be of any device. */
static CUresult ask(struct here *ret)
{
    CUdevice device = 0;
    CUresult rc = also.cuCtxGetCurrent(&ret->context);
    int known = rc == CUDA_SUCCESS ? live_contexts_card(ret->context) : LIVE_CONTEXTS_UNKNOWN;
    if (known != LIVE_CONTEXTS_UNKNOWN) {
        ret->card = known;
        return rc;
    }
    if (rc == CUDA_SUCCESS)
        rc = also.cuCtxGetDevice(&device);
    if (rc == CUDA_SUCCESS)
        ret->card = card_of_device(device);
    return rc;
}

/* With one device and one context there is nothing to ask: a thread without a context is refused by
 * the call itself. */
CUresult here_now(struct here *ret)
{
    *ret = (struct here){.context = live_contexts_only(), .card = -1};
    if (!share_is_attached())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!is_alone || ret->context == NULL)
        return ask(ret);
    ret->card = cards[0];
    return CUDA_SUCCESS;
}
