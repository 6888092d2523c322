/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/device.h"

#include <pthread.h>
#include <stdbool.h>

#include "limiter/live_contexts.h"
#include "limiter/real.h"
#include "limiter/share.h"

/* Written once, before any context can be made; until then no device is one of the share's. */
static int8_t cards[DEVICES_MAX] = {[0 ... DEVICES_MAX - 1] = -1};
static int count;
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
    if (rc == CUDA_SUCCESS && device >= 0 && device < DEVICES_MAX)
        cards[device] = (int8_t)share_card_of(uuid.bytes);
    return rc;
}

static CUresult read_all(void)
{
    int n = 0;
    CUresult rc = also.cuDeviceGetCount(&n);
    for (int i = 0; i < n && rc == CUDA_SUCCESS; i++)
        rc = read_one(i);
    count = n < DEVICES_MAX ? n : DEVICES_MAX;
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

int devices_count(void)
{
    return count;
}

int card_of_device(CUdevice device)
{
    return device >= 0 && device < DEVICES_MAX ? cards[device] : -1;
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
    if (!devices_are_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult rc = also.cuCtxGetCurrent(&ret->context);
    if (rc != CUDA_SUCCESS || !is_alone || ret->context != live_contexts_only())
        return rc == CUDA_SUCCESS ? look_up(ret) : rc;
    ret->card = cards[0];
    return CUDA_SUCCESS;
}
