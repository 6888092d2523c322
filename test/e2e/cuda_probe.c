/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses CUDA, for containers of tests. It does what its arguments say, one after the
 * other, and writes a line for each:
 *
 *    info          "total MIB free MIB" of the first card
 *    alloc MIB     "alloc MIB CODE", and keeps it
 *    spin S US     has the first card run kernels of US microseconds for S seconds, and waits for each
 *                  eight, so that the card rests for a moment; at each tenth of a second "spun MS N": how
 *                  many were done until then, at MS of the steady clock
 *    feed S US     the same, and gives the card the next eight first, so that it never rests
 *    pair S US     the same with a kernel on each of the first two cards at a time, both of which are
 *                  waited for, as those of a collective do
 *    second S US   as spin, on the second card
 *    beat S US     for S seconds one such kernel each 20 milliseconds, which is waited for; then "beat N
 *                  P50 P99 MAX": how many, and how many microseconds they took
 *    said          "that was all", the last line that a test waits for
 *    stay          runs on until it is ended
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda.h"

#define MIB ((size_t)1 << 20)

/* Looks at the card's clock until so many nanoseconds are over. */
static const char spin_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry spin_ns(.param .u64 ns)\n"
                               "{\n"
                               "    .reg .pred %p<2>;\n    .reg .b64 %rd<5>;\n"
                               "    ld.param.u64 %rd1, [ns];\n    mov.u64 %rd2, %globaltimer;\n"
                               "again:\n"
                               "    mov.u64 %rd3, %globaltimer;\n    sub.s64 %rd4, %rd3, %rd2;\n"
                               "    setp.lt.u64 %p1, %rd4, %rd1;\n    @%p1 bra again;\n    ret;\n"
                               "}\n";

static CUresult enter(int device)
{
    CUcontext context = NULL;
    CUresult rc = cuDevicePrimaryCtxRetain(&context, device);
    return rc == CUDA_SUCCESS ? cuCtxSetCurrent(context) : rc;
}

static int begin(void)
{
    CUresult rc = cuInit(0);
    if (rc == CUDA_SUCCESS)
        rc = enter(0);
    (void)printf("begin %d\n", rc);
    return rc;
}

static void info(void)
{
    size_t free_bytes = 0, total = 0;
    CUresult rc = cuMemGetInfo_v2(&free_bytes, &total);
    if (rc == CUDA_SUCCESS)
        (void)printf("total %zu free %zu\n", total / MIB, free_bytes / MIB);
    else
        (void)printf("info %d\n", rc);
}

static void allocate(const char *mib)
{
    CUdeviceptr pointer = 0;
    (void)printf("alloc %s %d\n", mib, cuMemAlloc_v2(&pointer, strtoul(mib, NULL, 10) * MIB));
}

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Of a kernel: as many as an H100 has at a time, so that it fills the card. */
enum { BLOCKS = 132 * 8 };

static CUresult load(CUfunction *ret)
{
    CUmodule module = NULL;
    CUresult rc = cuModuleLoadData(&module, spin_ptx);
    return rc == CUDA_SUCCESS ? cuModuleGetFunction(ret, module, "spin_ns") : rc;
}

enum { SOME = 8, MAX_AHEAD = 2 };

static CUresult give_some(CUfunction spin, unsigned long ns, CUevent after)
{
    void *params[] = {&ns, NULL};
    CUresult rc = CUDA_SUCCESS;
    for (int i = 0; i < SOME && rc == CUDA_SUCCESS; i++)
        rc = cuLaunchKernel(spin, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    return rc == CUDA_SUCCESS ? cuEventRecord(after, NULL) : rc;
}

static CUresult load_with(CUfunction *ret, CUevent events[MAX_AHEAD])
{
    CUresult rc = load(ret);
    for (int i = 0; i < MAX_AHEAD && rc == CUDA_SUCCESS; i++)
        rc = cuEventCreate(&events[i], 0);
    return rc;
}

/* So many eights are on the card before one waits for the first of them. */
static void spin(const char *seconds, const char *us, int ahead)
{
    CUfunction function = NULL;
    CUevent events[MAX_AHEAD];
    long end = now_ms() + strtol(seconds, NULL, 10) * 1000, next = now_ms(), n = 0;
    CUresult rc = load_with(&function, events);
    for (int given = 1; rc == CUDA_SUCCESS && now_ms() < end; given++) {
        rc = give_some(function, strtoul(us, NULL, 10) * 1000, events[given % ahead]);
        if (given < ahead)
            continue;
        rc = rc == CUDA_SUCCESS ? cuEventSynchronize(events[(given + 1) % ahead]) : rc;
        n += SOME;
        if (now_ms() < next)
            continue;
        (void)printf("spun %ld %ld\n", now_ms(), n);
        next += 100;
    }
    (void)printf("spin %d\n", rc);
}

struct side {
    CUcontext context;
    CUfunction spin;
};

static CUresult begin_side(struct side *s, int device)
{
    CUresult rc = enter(device);
    if (rc == CUDA_SUCCESS)
        rc = cuCtxGetCurrent(&s->context);
    return rc == CUDA_SUCCESS ? load(&s->spin) : rc;
}

static CUresult on_each(const struct side sides[2], unsigned long ns)
{
    void *params[] = {&ns, NULL};
    CUresult rc = CUDA_SUCCESS;
    for (int i = 0; i < 2 && rc == CUDA_SUCCESS; i++) {
        rc = cuCtxSetCurrent(sides[i].context);
        if (rc == CUDA_SUCCESS)
            rc = cuLaunchKernel(sides[i].spin, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    }
    for (int i = 0; i < 2 && rc == CUDA_SUCCESS; i++) {
        rc = cuCtxSetCurrent(sides[i].context);
        rc = rc == CUDA_SUCCESS ? cuCtxSynchronize() : rc;
    }
    return rc;
}

static void pair(const char *seconds, const char *us)
{
    struct side sides[2];
    long end = now_ms() + strtol(seconds, NULL, 10) * 1000, next = now_ms(), n = 0;
    CUresult rc = begin_side(&sides[0], 0);
    rc = rc == CUDA_SUCCESS ? begin_side(&sides[1], 1) : rc;
    while (rc == CUDA_SUCCESS && now_ms() < end) {
        rc = on_each(sides, strtoul(us, NULL, 10) * 1000);
        n++;
        if (now_ms() < next)
            continue;
        (void)printf("spun %ld %ld\n", now_ms(), n);
        next += 100;
    }
    (void)printf("pair %d\n", rc);
}

enum { MAX_BEATS = 4096, PAUSE_MS = 20 };

static int by_value(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return x < y ? -1 : x > y;
}

static long now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void beat(const char *seconds, const char *us)
{
    static long took[MAX_BEATS];
    unsigned long ns = strtoul(us, NULL, 10) * 1000;
    void *params[] = {&ns, NULL};
    CUfunction spin = NULL;
    long end = now_ms() + strtol(seconds, NULL, 10) * 1000;
    size_t n = 0;
    CUresult rc = load(&spin);
    while (rc == CUDA_SUCCESS && now_ms() < end && n < MAX_BEATS) {
        long began = now_us();
        rc = cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
        rc = rc == CUDA_SUCCESS ? cuCtxSynchronize() : rc;
        took[n++] = now_us() - began;
        (void)poll(NULL, 0, PAUSE_MS);
    }
    if (rc != CUDA_SUCCESS || n == 0)
        return;
    qsort(took, n, sizeof(*took), by_value);
    (void)printf("beat %zu %ld %ld %ld\n", n, took[n / 2], took[n - 1 - n / 100], took[n - 1]);
}

int main(int argc, char **argv)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int rc = begin();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "info") == 0)
            info();
        else if (strcmp(argv[i], "alloc") == 0 && i + 1 < argc)
            allocate(argv[++i]);
        else if (strcmp(argv[i], "spin") == 0 && i + 2 < argc) {
            spin(argv[i + 1], argv[i + 2], /* ahead= */ 1);
            i += 2;
        } else if (strcmp(argv[i], "feed") == 0 && i + 2 < argc) {
            spin(argv[i + 1], argv[i + 2], MAX_AHEAD);
            i += 2;
        } else if (strcmp(argv[i], "second") == 0 && i + 2 < argc) {
            if (enter(1) == CUDA_SUCCESS)
                spin(argv[i + 1], argv[i + 2], /* ahead= */ 1);
            i += 2;
        } else if (strcmp(argv[i], "pair") == 0 && i + 2 < argc) {
            pair(argv[i + 1], argv[i + 2]);
            i += 2;
        } else if (strcmp(argv[i], "beat") == 0 && i + 2 < argc) {
            beat(argv[i + 1], argv[i + 2]);
            i += 2;
        } else if (strcmp(argv[i], "said") == 0)
            (void)printf("that was all\n");
        else if (strcmp(argv[i], "stay") == 0)
            (void)pause();
    }
    return rc == CUDA_SUCCESS ? 0 : 1;
}
