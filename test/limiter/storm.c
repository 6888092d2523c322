/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that allocate and free at random, and are killed at random:
 *
 *    storm SEED PROCESSES KILLS REPORTS
 *
 * Between two kills there are so many reports, each of a few steps of one process. Prints how many
 * allocations were granted, how many refused, and how many calls or processes ended oddly: in another
 * way than by saying that there is no room. Gives up after 200 seconds.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);

enum { MAX_PROCESSES = 128, LARGE = 40, SMALL = 64, STEPS = 8, NO_ROOM = 3, OUT_OF_MEMORY = 2 };

static struct {
    unsigned long granted, refused, odd;
} * shared;

static unsigned int seed;

static unsigned int any(unsigned int n)
{
    return (unsigned int)rand_r(&seed) % n;
}

static void count(unsigned long *word)
{
    (void)__atomic_add_fetch(word, 1, __ATOMIC_RELAXED);
}

/* 0: it is refused. */
static unsigned long long allocate(size_t bytes)
{
    unsigned long long pointer = 0;
    int rc = cuMemAlloc_v2(&pointer, bytes);
    count(rc == 0 ? &shared->granted : rc == OUT_OF_MEMORY ? &shared->refused : &shared->odd);
    return rc == 0 ? pointer : 0;
}

static void let_go(unsigned long long *pointer)
{
    if (*pointer != 0 && cuMemFree_v2(*pointer) != 0)
        count(&shared->odd);
    *pointer = 0;
}

/* As many pieces of 64 KiB, that fill their granules, and all of them freed. */
static void use_small(void)
{
    unsigned long long pieces[SMALL] = {0};
    unsigned int n = 1 + any(SMALL);
    for (unsigned int i = 0; i < n; i++)
        pieces[i] = allocate(MIB / 16);
    for (unsigned int i = 0; i < n; i++)
        let_go(&pieces[i]);
}

static void step(unsigned long long large[LARGE])
{
    unsigned int i = any(LARGE);
    if (any(4) == 0)
        use_small();
    else if (large[i] != 0)
        let_go(&large[i]);
    else
        large[i] = allocate(any(2) == 0 ? 2 * MIB : (2 + any(200)) * MIB);
}

static int run(int report)
{
    unsigned long long large[LARGE] = {0};
    void *context = NULL;
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 ||
        cuCtxSetCurrent(context) != 0)
        return NO_ROOM;
    for (;;) {
        for (int i = 0; i < STEPS; i++)
            step(large);
        (void)!write(report, "x", 1);
    }
}

static pid_t start(const int report[2])
{
    pid_t pid = fork();
    seed++;
    if (pid == 0) {
        (void)close(report[0]);
        _exit(run(report[1]));
    }
    return pid;
}

/* How one ended, who was killed or not. */
static void judge(int status)
{
    int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    int refused = WIFEXITED(status) && WEXITSTATUS(status) == NO_ROOM;
    if (!killed && !refused)
        count(&shared->odd);
}

static void end(pid_t pid)
{
    int status = 0;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    judge(status);
}

/* Fewer where all processes found no room for a context. */
static void wait_for(int report, int reports)
{
    char byte;
    struct pollfd p = {.fd = report, .events = POLLIN};
    while (reports-- > 0 && poll(&p, 1, 100) == 1)
        (void)!read(report, &byte, 1);
}

int main(int argc, char **argv)
{
    pid_t pids[MAX_PROCESSES];
    int report[2];
    if (argc != 5 || strtol(argv[2], NULL, 10) > MAX_PROCESSES || pipe(report) != 0 ||
        fcntl(report[1], F_SETFL, O_NONBLOCK) != 0)
        return 2;
    seed = (unsigned int)strtoul(argv[1], NULL, 10);
    int n = (int)strtol(argv[2], NULL, 10), kills = (int)strtol(argv[3], NULL, 10),
        reports = (int)strtol(argv[4], NULL, 10);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)alarm(200);
    for (int i = 0; i < n; i++)
        pids[i] = start(report);
    for (int i = 0; i < kills; i++) {
        int at = (int)any((unsigned int)n);
        wait_for(report[0], reports);
        end(pids[at]);
        pids[at] = start(report);
    }
    for (int i = 0; i < n; i++)
        end(pids[i]);
    (void)printf("%lu %lu %lu\n", shared->granted, shared->refused, shared->odd);
    return 0;
}
