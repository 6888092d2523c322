/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses CUDA, for containers of tests. It does what its arguments say, one after the
 * other, and writes a line for each:
 *
 *    info          "total MIB free MIB" of the first card
 *    alloc MIB     "alloc MIB CODE", and keeps it
 *    said          "that was all", the last line that a test waits for
 *    stay          runs on until it is ended
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda.h"

#define MIB ((size_t)1 << 20)

static int begin(void)
{
    CUcontext context = NULL;
    CUresult rc = cuInit(0);
    if (rc == CUDA_SUCCESS)
        rc = cuDevicePrimaryCtxRetain(&context, 0);
    if (rc == CUDA_SUCCESS)
        rc = cuCtxSetCurrent(context);
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

int main(int argc, char **argv)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int rc = begin();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "info") == 0)
            info();
        else if (strcmp(argv[i], "alloc") == 0 && i + 1 < argc)
            allocate(argv[++i]);
        else if (strcmp(argv[i], "said") == 0)
            (void)printf("that was all\n");
        else if (strcmp(argv[i], "stay") == 0)
            (void)pause();
    }
    return rc == CUDA_SUCCESS ? 0 : 1;
}
