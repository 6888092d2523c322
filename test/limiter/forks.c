/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and free while another forks: forks CHILDREN
 *
 * A child tries CUDA, which it has not; every fourth starts this program anew, which has it. Prints
 * how many children said what they should. Exits with 3 when a thread was refused what there is room
 * for. Gives up after 200 seconds.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);

enum { THREADS = 4, NOT_INITIALIZED = 3 };

static atomic_bool stop;
static void *context;

static int begin(void)
{
    return cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);
}

static int use(size_t bytes)
{
    unsigned long long pointer = 0;
    int rc = cuMemAlloc_v2(&pointer, bytes);
    return rc != 0 ? rc : cuMemFree_v2(pointer);
}

static void *work(void *arg)
{
    long bad = cuCtxSetCurrent(context);
    while (!atomic_load(&stop))
        bad |= use(2 * MIB) | use(1000);
    (void)arg;
    return (void *)bad;
}

/* What the parent's CUDA answers in a child: the real library's code, and nothing is counted. */
static int try_without(void)
{
    void *other = NULL;
    return cuInit(0) == NOT_INITIALIZED && cuDevicePrimaryCtxRetain(&other, 0) == NOT_INITIALIZED &&
           use(2 * MIB) == NOT_INITIALIZED;
}

static int fork_one(const char *program, int anew)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (anew)
            (void)execl(program, program, "child", (char *)NULL);
        _exit(!anew && try_without() ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int good = 0, n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    void *bad = NULL;
    (void)alarm(200);
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return begin() != 0 || use(10 * MIB) != 0;
    if (begin() != 0)
        return 2;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < n; i++)
        good += fork_one(argv[0], i % 4 == 3);
    atomic_store(&stop, 1);
    int refused = 0;
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], &bad);
        refused |= bad != NULL;
    }
    (void)printf("%d\n", good);
    (void)fflush(stdout);
    (void)getchar();
    return refused ? 3 : 0;
}
