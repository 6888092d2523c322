/* SPDX-License-Identifier: Apache-2.0 */
/* Six threads of one process on two cards: the primary context of one, and contexts of their own on
 * the other. For TSan. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/cuda.h"

enum { THREADS = 6, ROUNDS = 50, PIECES = 8 };

static atomic_uint failures;

static void expect(CUresult rc, const char *call)
{
    if (rc == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "%s: %d\n", call, rc);
    atomic_fetch_add(&failures, 1);
}

static void use_memory(void)
{
    CUdeviceptr pieces[PIECES];
    size_t left = 0;
    size_t total = 0;
    for (size_t i = 0; i < PIECES; i++) {
        expect(cuMemAlloc_v2(&pieces[i], (size_t)1000 << i), "cuMemAlloc");
        expect(cuMemsetD8_v2(pieces[i], 1, 1000), "cuMemsetD8");
    }
    expect(cuMemGetInfo_v2(&left, &total), "cuMemGetInfo");
    for (size_t i = 0; i < PIECES; i++)
        expect(cuMemFree_v2(pieces[i]), "cuMemFree");
}

static void use_context(int device)
{
    CUcontext context = NULL;
    if (device == 0) {
        expect(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
        expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
        use_memory();
        expect(cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease");
        return;
    }
    expect(cuCtxCreate_v2(&context, 0, device), "cuCtxCreate");
    use_memory();
    expect(cuCtxDestroy_v2(context), "cuCtxDestroy");
}

static void *work(void *arg)
{
    int device = (int)((uintptr_t)arg % 2);
    for (int i = 0; i < ROUNDS; i++) {
        expect(cuInit(0), "cuInit");
        use_context(device);
    }
    return NULL;
}

/* The primary context is retained all the while: a thread that releases it last would end it for
 * those that are in it. */
int main(void)
{
    pthread_t threads[THREADS];
    CUcontext kept = NULL;
    expect(cuInit(0), "cuInit");
    expect(cuDevicePrimaryCtxRetain(&kept, 0), "cuDevicePrimaryCtxRetain");
    for (uintptr_t i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return atomic_load(&failures) > 0;
}
