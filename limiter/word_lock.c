/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/word_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 0: free. Else the pid of who has it, and WAITED once somebody waits. */
#define WAITED UINT32_C(0x80000000)

/* How long one waits before one looks whether who has the lock still lives. */
#define LOOK_NS 20000000

static bool swap(uint32_t *word, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* False: the time is over. */
static bool wait_for_change(uint32_t *word, uint32_t seen)
{
    const struct timespec time = {.tv_nsec = LOOK_NS};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0);
    return rc == 0 || errno != ETIMEDOUT;
}

static bool is_left(uint32_t seen, const uint64_t *started, const struct peer *own)
{
    const struct peer holder = {.pid = seen & ~WAITED,
                                .pid_ns = own->pid_ns,
                                .started = __atomic_load_n(started, __ATOMIC_RELAXED)};
    /* This process's own threads take turns: one that has its pid had it in another time. */
    return holder.pid == own->pid || peer_is_gone(&holder, own);
}

static void wait_until_ours(uint32_t *word, const uint64_t *started, const struct peer *own)
{
    for (;;) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        if (seen == 0 && swap(word, 0, own->pid | WAITED))
            return;
        if (seen == 0 || ((seen & WAITED) == 0 && !swap(word, seen, seen | WAITED)))
            continue;
        if (!wait_for_change(word, seen | WAITED) && is_left(seen, started, own) &&
            swap(word, seen | WAITED, own->pid | WAITED))
            return;
    }
}

void word_lock(uint32_t *word, uint64_t *started, const struct peer *own)
{
    int saved = errno;
    if (!swap(word, 0, own->pid))
        wait_until_ours(word, started, own);
    __atomic_store_n(started, own->started, __ATOMIC_RELAXED);
    errno = saved;
}

void word_unlock(uint32_t *word, uint64_t *started)
{
    __atomic_store_n(started, 0, __ATOMIC_RELAXED);
    if ((__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) & WAITED) != 0)
        (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
