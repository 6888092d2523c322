/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of processes that take from the share and give back: share_storm PROCESSES ROUNDS
 *
 * All of them keep one count of what they have. Prints how often they took something, how often they
 * were refused, and how often the count was past the limit of 8 MiB.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/share.h"

enum { THREADS = 3, CARD = 0 };

#define LIMIT (UINT64_C(8) << 20U)

static struct {
    uint64_t held, taken, refused, past;
} * shared;

static int rounds;

static void count(uint64_t *word)
{
    (void)__atomic_add_fetch(word, 1, __ATOMIC_RELAXED);
}

/* Some keep what they have for as long as others run. */
static void round_of(uint64_t bytes, bool is_slow)
{
    if (!share_take(CARD, bytes)) {
        count(&shared->refused);
        return;
    }
    if (__atomic_add_fetch(&shared->held, bytes, __ATOMIC_SEQ_CST) > LIMIT)
        count(&shared->past);
    count(&shared->taken);
    if (is_slow)
        (void)sched_yield();
    (void)__atomic_sub_fetch(&shared->held, bytes, __ATOMIC_SEQ_CST);
    share_give_back(CARD, bytes);
}

static void *run(void *arg)
{
    for (int i = 0; i < rounds; i++)
        round_of((UINT64_C(1) + (uint64_t)i % 3) << 20U, i % 4 == 0);
    return arg;
}

static int use(void)
{
    pthread_t threads[THREADS];
    if (!share_attach())
        return 1;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    int bad = 0, status = 0;
    if (argc != 3)
        return 2;
    rounds = (int)strtol(argv[2], NULL, 10);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)alarm(200);
    for (int i = 1; i < (int)strtol(argv[1], NULL, 10); i++) {
        if (fork() == 0)
            _exit(use());
    }
    bad = use();
    while (wait(&status) > 0)
        bad |= status;
    (void)printf("%lu %lu %lu\n", (unsigned long)shared->taken, (unsigned long)shared->refused,
                 (unsigned long)shared->past);
    return bad != 0;
}
