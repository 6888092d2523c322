/* SPDX-License-Identifier: Apache-2.0 */
/* Six threads of one process on two MetaX cards. Three read the hardware anew now and then, which
 * fails no call of the others. For TSan. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/mxsml.h"

enum { THREADS = 6, ROUNDS = 50 };

static atomic_uint failures;

static void expect(unsigned int rc, const char *call)
{
    if (rc == MXSML_SUCCESS)
        return;
    (void)fprintf(stderr, "%s: %u\n", call, rc);
    atomic_fetch_add(&failures, 1);
}

static void slice(unsigned int dev)
{
    unsigned int id = 0;
    struct mxsml_sgpu_info info;
    expect(mxSmlCreateSgpu(dev, 128, 1, &id), "mxSmlCreateSgpu");
    expect(mxSmlGetSgpuInfo(dev, id, &info), "mxSmlGetSgpuInfo");
    expect(mxSmlRemoveSgpu(dev, id), "mxSmlRemoveSgpu");
}

static void watch(unsigned int dev)
{
    mxsml_event_set_t set = NULL;
    expect(mxSmlEventSetCreate(&set), "mxSmlEventSetCreate");
    expect(mxSmlDeviceRegisterEvents(dev, MXSML_EVENT_ERROR_ID, set), "mxSmlDeviceRegisterEvents");
    expect(mxSmlEventSetFree(set), "mxSmlEventSetFree");
}

static void *work(void *arg)
{
    unsigned int dev = (unsigned int)(uintptr_t)arg % 2;
    for (int i = 0; i < ROUNDS; i++) {
        struct mxsml_device_info info;
        expect(dev == 0 && i % 10 == 0 ? mxSmlInitWithFlags(1) : mxSmlInit(), "mxSmlInit");
        expect(mxSmlGetDeviceInfo(dev, &info), "mxSmlGetDeviceInfo");
        expect(mxSmlSetSgpuToggle(dev, 1), "mxSmlSetSgpuToggle");
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
    unsigned int slices = mxSmlGetSgpuCount(0) + mxSmlGetSgpuCount(1);
    if (slices > 0)
        (void)fprintf(stderr, "%u slices were left\n", slices);
    return mxSmlGetDeviceCount() > 0 && slices == 0 && failures == 0 ? 0 : 1;
}
