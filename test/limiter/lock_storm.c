/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock between processes, fought for by many of which one after the other is killed: never two
 * are inside, and a dead one's lock is taken over. Prints how often it was had, and taken over.
 */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/word_lock.h"

enum { AT_ONCE = 24, KILLS = 400, OWN_ROUNDS = 8, PROCESSES = AT_ONCE + KILLS + 1 };

static struct {
    uint64_t lock;
    uint32_t inside; /* the number of the process that is, from 1 on */
    uint32_t entries, left_behind, violations;
    uint32_t stop;
    uint32_t dead[PROCESSES + 1];
} * shared;

static uint32_t get(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void count(uint32_t *word)
{
    (void)__atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
}

static void enter_and_leave(uint32_t number, const struct peer *own)
{
    word_lock(&shared->lock, own);
    uint32_t found = __atomic_exchange_n(&shared->inside, number, __ATOMIC_SEQ_CST);
    if (found != 0)
        count(get(&shared->dead[found]) ? &shared->left_behind : &shared->violations);
    count(&shared->entries);
    if (get(&shared->entries) % 4 == 0)
        (void)sched_yield();
    found = __atomic_exchange_n(&shared->inside, 0, __ATOMIC_SEQ_CST);
    if (found != number)
        count(&shared->violations);
    word_unlock(&shared->lock, own);
}

static pid_t start(uint32_t number)
{
    struct peer own;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (!peer_own(&own))
        abort();
    while (!get(&shared->stop))
        enter_and_leave(number, &own);
    _exit(0);
}

static void end(pid_t pid, int signal)
{
    if (signal != 0)
        (void)kill(pid, signal);
    (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    pid_t pids[AT_ONCE];
    uint32_t numbers[AT_ONCE], next = 1;
    struct peer own;
    srand(argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !peer_own(&own))
        return 2;
    uint32_t mine = next++;
    for (int i = 0; i < AT_ONCE; i++)
        pids[i] = start(numbers[i] = next++);
    for (int i = 0; i < KILLS; i++) {
        int at = rand() % AT_ONCE;
        for (int round = 0; round < OWN_ROUNDS; round++)
            enter_and_leave(mine, &own);
        __atomic_store_n(&shared->dead[numbers[at]], 1, __ATOMIC_SEQ_CST);
        end(pids[at], SIGKILL);
        pids[at] = start(numbers[at] = next++);
    }
    __atomic_store_n(&shared->stop, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < AT_ONCE; i++)
        end(pids[i], 0);
    (void)printf("%u %u %u\n", shared->entries, shared->left_behind, shared->violations);
    return shared->violations != 0;
}
