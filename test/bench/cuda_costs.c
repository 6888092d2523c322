/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls of CUDA's driver cost, whatever stands in front of it:
 *
 *    cuda_costs calls       "alloc NS free NS launch NS init NS": of one call each, the median of rounds
 *    cuda_costs attach N    N processes of one program initialise CUDA at the same time: "attached N MS"
 *    cuda_costs fill N MIB  N processes allocate pieces of MIB at the same time, until each is refused:
 *                           "filled MIB MS", what they then have together
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda.h"

enum { ROUNDS = 201, CALLS = 500, BYTES = 2 << 20, SMALL = 64 << 10 };

static double now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void allocate_each(CUdeviceptr *pointers, size_t bytes)
{
    for (unsigned int i = 0; i < CALLS; i++) {
        if (cuMemAlloc_v2(&pointers[i], bytes) != 0)
            exit(3);
    }
}

static void allocate(CUdeviceptr *pointers)
{
    allocate_each(pointers, BYTES);
}

static void allocate_small(CUdeviceptr *pointers)
{
    allocate_each(pointers, SMALL);
}

static void let_go(CUdeviceptr *pointers)
{
    for (unsigned int i = 0; i < CALLS; i++)
        (void)cuMemFree_v2(pointers[i]);
}

static void launch(CUdeviceptr *pointers)
{
    (void)pointers;
    for (unsigned int i = 0; i < CALLS; i++)
        (void)cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static double once(void (*run)(CUdeviceptr *), CUdeviceptr *pointers)
{
    double begin = now_ns();
    run(pointers);
    return (now_ns() - begin) / CALLS;
}

static int calls(void)
{
    static CUdeviceptr pointers[CALLS];
    static double took[5][ROUNDS];
    CUcontext context = NULL;
    double begin = now_ns();
    if (cuInit(0) != 0)
        return 2;
    double init = now_ns() - begin;
    if (cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
        return 2;
    for (unsigned int i = 0; i < ROUNDS; i++) {
        took[0][i] = once(allocate, pointers);
        took[1][i] = once(let_go, pointers);
        took[2][i] = once(launch, pointers);
        took[3][i] = once(allocate_small, pointers);
        took[4][i] = once(let_go, pointers);
    }
    (void)printf("alloc %.1f free %.1f launch %.2f small %.1f small-free %.1f init %.0f\n",
                 median(took[0]), median(took[1]), median(took[2]), median(took[3]),
                 median(took[4]), init);
    return 0;
}

/* --- Many processes --- */

/* A child begins when the parent closes `go`, and writes what it did when it is done. */
struct start {
    int go[2], done[2];
    long piece_mib; /* 0: it initialises CUDA alone */
};

static bool has_context(void)
{
    CUcontext context = NULL;
    return cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
           cuCtxSetCurrent(context) == 0;
}

/* MiB. */
static long fill(long piece_mib)
{
    CUdeviceptr pointer = 0;
    long has = 0;
    while (cuMemAlloc_v2(&pointer, (size_t)piece_mib << 20U) == 0)
        has += piece_mib;
    return has;
}

static bool say(const struct start *s, long did)
{
    return write(s->done[1], &did, sizeof(did)) == sizeof(did);
}

/* Who fills has its context before: there is no room for one afterwards. */
static int be_one(const struct start *s)
{
    char byte = 0;
    bool fills = s->piece_mib != 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)close(s->go[1]);
    if ((fills && !say(s, has_context() ? 0 : -1)) || read(s->go[0], &byte, 1) != 0)
        return 1;
    long did = fills ? fill(s->piece_mib) : cuInit(0) == 0 ? 0 : -1;
    return say(s, did) ? pause() : 1;
}

/* The sum of what they did; -1: one could not. */
static long sum_of(const struct start *s, int n)
{
    long sum = 0, did = 0;
    for (int i = 0; i < n; i++) {
        if (read(s->done[0], &did, sizeof(did)) != sizeof(did) || did < 0)
            return -1;
        sum += did;
    }
    return sum;
}

static int together(int n, long piece_mib, const char *word)
{
    struct start s = {.piece_mib = piece_mib};
    pid_t *pids = calloc((size_t)n, sizeof(pid_t));
    if (pids == NULL || pipe(s.go) != 0 || pipe(s.done) != 0)
        return 2;
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(be_one(&s));
    }
    bool ready = piece_mib == 0 || sum_of(&s, n) == 0;
    double begin = now_ns();
    (void)close(s.go[1]);
    long sum = ready ? sum_of(&s, n) : -1;
    (void)printf("%s %ld %.3f\n", word, piece_mib != 0 ? sum : n, (now_ns() - begin) / 1e6);
    for (int i = 0; i < n; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    return sum >= 0 ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "calls") == 0)
        return calls();
    if (argc == 3 && strcmp(argv[1], "attach") == 0)
        return together((int)strtol(argv[2], NULL, 10), 0, "attached");
    if (argc == 4 && strcmp(argv[1], "fill") == 0)
        return together((int)strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10), "filled");
    return 1;
}
