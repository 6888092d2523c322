/* SPDX-License-Identifier: Apache-2.0 */
/* Six threads of one process on two MetaX cards, one of which reads the hardware anew now and then;
 * for TSan. */
#include <pthread.h>
#include <stdint.h>

#include "sim/mxsml.h"

enum { THREADS = 6, ROUNDS = 50 };

static void slice(unsigned int dev)
{
    unsigned int id = 0;
    struct mxsml_sgpu_info info;
    if (mxSmlCreateSgpu(dev, 128, 1, &id) != MXSML_SUCCESS)
        return;
    (void)mxSmlGetSgpuInfo(dev, id, &info);
    (void)mxSmlRemoveSgpu(dev, id);
}

static void watch(unsigned int dev)
{
    mxsml_event_set_t set = NULL;
    if (mxSmlEventSetCreate(&set) != MXSML_SUCCESS)
        return;
    (void)mxSmlDeviceRegisterEvents(dev, MXSML_EVENT_ERROR_ID, set);
    (void)mxSmlEventSetFree(set);
}

static void *work(void *arg)
{
    unsigned int dev = (unsigned int)(uintptr_t)arg % 2;
    for (int i = 0; i < ROUNDS; i++) {
        struct mxsml_device_info info;
        (void)(dev == 0 && i % 10 == 0 ? mxSmlInitWithFlags(1) : mxSmlInit());
        (void)mxSmlGetDeviceInfo(dev, &info);
        (void)mxSmlSetSgpuToggle(dev, 1);
        slice(dev);
        watch(dev);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return mxSmlGetDeviceCount() > 0 && mxSmlGetSgpuCount(0) == 0 && mxSmlGetSgpuCount(1) == 0 ? 0
                                                                                               : 1;
}
