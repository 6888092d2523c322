/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/word_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAITED (UINT64_C(1) << 31U)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half is the futex");

/* How long one waits before one looks whether who has the lock still lives, and how often one looks
 * at a process of which that cannot be seen. */
#define LOOK_NS       20000000
#define FOREIGN_LOOKS 100
#define LIVING_LOOKS  500

static uint64_t word_of(const struct peer *own)
{
    return (uint64_t)peer_mark(own) << 32U | own->pid;
}

static bool swap(uint64_t *word, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* False: the time is over. */
static bool wait_for_change(uint64_t *word, uint64_t seen)
{
    const struct timespec time = {.tv_nsec = LOOK_NS};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT, (uint32_t)seen, &time, NULL, 0);
    return rc == 0 || errno != ETIMEDOUT;
}

static bool is_left(uint64_t seen, const struct peer *own, int looks)
{
    uint64_t holder = seen & ~WAITED;
    uint32_t mark = (uint32_t)(holder >> 32U);
    /* This process's own threads take turns: it had it before its program was replaced. */
    if (holder == word_of(own))
        return true;
    if (peer_mark_is_foreign(mark, own))
        return looks >= FOREIGN_LOOKS;
    return looks >= LIVING_LOOKS || peer_mark_is_gone((uint32_t)holder, mark, own);
}

/* at_most: looks; 0: no end. */
static bool wait_until_ours(uint64_t *word, const struct peer *own, int at_most)
{
    uint64_t mine = word_of(own) | WAITED;
    uint64_t before = 0;
    int looks = 0; /* at the same holder, in a row */
    int all = 0;
    for (;;) {
        uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        if (seen == 0 && swap(word, 0, mine))
            return true;
        if (seen == 0 || ((seen & WAITED) == 0 && !swap(word, seen, seen | WAITED)))
            continue;
        looks = (seen | WAITED) == before ? looks : 0;
        before = seen | WAITED;
        if (wait_for_change(word, before))
            continue;
        if (is_left(before, own, ++looks) && swap(word, before, mine))
            return true;
        if (++all == at_most)
            return false;
    }
}

bool word_lock_within(uint64_t *word, const struct peer *own, int looks)
{
    int saved = errno;
    bool ours = swap(word, 0, word_of(own)) || wait_until_ours(word, own, looks);
    errno = saved;
    return ours;
}

void word_lock(uint64_t *word, const struct peer *own)
{
    (void)word_lock_within(word, own, /* looks= */ 0);
}

/* Who was stopped for too long may find another one's word here. */
void word_unlock(uint64_t *word, const struct peer *own)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    do {
        if ((seen & ~WAITED) != word_of(own))
            return;
    } while (
        !__atomic_compare_exchange_n(word, &seen, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    if ((seen & WAITED) != 0)
        (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
