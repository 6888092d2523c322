/* SPDX-License-Identifier: Apache-2.0 */
/* Six threads of one process on two cards: the primary context of one, and contexts of their own on
 * the other, with memory and with work in streams. For TSan. */
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

static void count(void *data)
{
    atomic_fetch_add((atomic_uint *)data, 1);
}

static CUfunction spinner(void)
{
    static const char text[] = ".version 7.0 .target sm_75 .address_size 64\n"
                               ".visible .entry spin_ns(.param .u64 ns) { ret; }";
    CUmodule module = NULL;
    CUfunction function = NULL;
    expect(cuModuleLoadData(&module, text), "cuModuleLoadData");
    expect(cuModuleGetFunction(&function, module, "spin_ns"), "cuModuleGetFunction");
    return function;
}

static void launch(CUfunction function, unsigned long long ns, CUstream stream)
{
    void *params[] = {&ns};
    expect(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), "cuLaunchKernel");
}

/* A kernel, a copy and a function in each of two streams, of which one waits for the other. */
static void use_streams(void)
{
    CUstream streams[2];
    CUevent event = NULL;
    CUdeviceptr piece = 0;
    uint32_t seen = 0;
    atomic_uint called = 0;
    CUfunction function = spinner();
    expect(cuMemAlloc_v2(&piece, sizeof(seen)), "cuMemAlloc");
    expect(cuEventCreate(&event, 0), "cuEventCreate");
    for (unsigned int i = 0; i < 2; i++) {
        expect(cuStreamCreate(&streams[i], i), "cuStreamCreate");
        launch(function, 20000, streams[i]);
        expect(cuLaunchHostFunc(streams[i], count, &called), "cuLaunchHostFunc");
    }
    expect(cuMemsetD32Async(piece, 7, 1, streams[0]), "cuMemsetD32Async");
    expect(cuEventRecord(event, streams[0]), "cuEventRecord");
    expect(cuStreamWaitEvent(streams[1], event, 0), "cuStreamWaitEvent");
    expect(cuMemcpyDtoHAsync_v2(&seen, piece, sizeof(seen), streams[1]), "cuMemcpyDtoHAsync");
    expect(cuEventSynchronize(event), "cuEventSynchronize");
    launch(function, 20000, CU_STREAM_PER_THREAD);
    launch(function, 20000, NULL);
    expect(cuCtxSynchronize(), "cuCtxSynchronize");
    expect(seen == 7 && atomic_load(&called) == 2 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, "order");
    for (size_t i = 0; i < 2; i++)
        expect(cuStreamDestroy_v2(streams[i]), "cuStreamDestroy");
    expect(cuEventDestroy_v2(event), "cuEventDestroy");
    expect(cuMemFree_v2(piece), "cuMemFree");
}

/* Its kernel goes on until the context ends. */
static void leave_work(void)
{
    CUstream stream = NULL;
    expect(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    launch(spinner(), UINT64_MAX, stream);
}

static void use_context(int device)
{
    CUcontext context = NULL;
    if (device == 0) {
        expect(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
        expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
        use_memory();
        use_streams();
        expect(cuDevicePrimaryCtxRelease_v2(device), "cuDevicePrimaryCtxRelease");
        return;
    }
    expect(cuCtxCreate_v2(&context, 0, device), "cuCtxCreate");
    use_memory();
    use_streams();
    leave_work();
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
