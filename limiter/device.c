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
static bool is_read;  /* atomic */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* --- Locked --- */

static CUresult read_one(int ordinal)
{
    CUdevice device = 0;
    CUuuid uuid = {0};
    CUresult rc = also.cuDeviceGet(&device, ordinal);
    if (rc == CUDA_SUCCESS)
        rc = also.cuDeviceGetUuid(&uuid, device);
    if (rc == CUDA_SUCCESS && device >= 0 && device < MAX_DEVICES)
        cards[device] = (int8_t)share_card_of(uuid.bytes);
    return rc;
}

static CUresult read_all(void)
{
    int n = 0;
    CUresult rc = also.cuDeviceGetCount(&n);
    for (int i = 0; i < n && rc == CUDA_SUCCESS; i++)
        rc = read_one(i);
    is_alone = n == 1;
    __atomic_store_n(&is_read, rc == CUDA_SUCCESS, __ATOMIC_RELEASE);
    return rc;
}

/* --- --- */

/* Every library of a program initialises CUDA anew; the devices stay what they are. */
CUresult devices_read(void)
{
    (void)pthread_mutex_lock(&mu);
    CUresult rc = is_read ? CUDA_SUCCESS : read_all();
    (void)pthread_mutex_unlock(&mu);
    return rc;
}

bool devices_are_ready(void)
{
    return share_is_attached() && __atomic_load_n(&is_read, __ATOMIC_ACQUIRE);
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
    if (!devices_are_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!is_alone || ret->context == NULL)
        return ask(ret);
    ret->card = cards[0];
    return CUDA_SUCCESS;
}
