/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "limiter/word_lock.h"

static uint64_t *shared_word(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(at, MAP_FAILED);
    return at;
}

static struct peer own(void)
{
    struct peer p;
    cr_assert(peer_own(&p));
    return p;
}

static uint64_t word_of(const struct peer *p)
{
    return (uint64_t)peer_mark(p) << 32U | p->pid;
}

/* Takes the lock, with as much time as it needs, and gives it back. */
static void have(uint64_t *word)
{
    struct peer p = own();
    word_lock(word, &p);
    cr_expect_eq((*word & 0x7fffffff), p.pid);
    word_unlock(word, &p);
    cr_expect_eq(*word, 0);
}

/* Starts a process that writes a byte into *ret_done once it has had the lock. */
static pid_t start_waiter(uint64_t *word, int *ret_done)
{
    int done[2];
    cr_assert_eq(pipe(done), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p;
        bool ok = peer_own(&p);
        word_lock(word, &p);
        ok = ok && write(done[1], "x", 1) == 1;
        word_unlock(word, &p);
        _exit(!ok);
    }
    (void)close(done[1]);
    *ret_done = done[0];
    return pid;
}

static bool is_done(int done, int within_ms)
{
    struct pollfd p = {.fd = done, .events = POLLIN};
    return poll(&p, 1, within_ms) == 1;
}

Test(word_lock, names_who_has_it)
{
    uint64_t *word = shared_word();
    struct peer p = own();
    word_lock(word, &p);
    cr_expect_eq(*word, word_of(&p));
    word_unlock(word, &p);
    cr_expect_eq(*word, 0);
}

Test(word_lock, waits_for_who_has_it_however_often_it_looks_at_it)
{
    uint64_t *word = shared_word();
    struct peer p = own();
    int done = -1;
    word_lock(word, &p);
    pid_t pid = start_waiter(word, &done);
    cr_expect_not(is_done(done, 200), "ten looks");
    word_unlock(word, &p);
    cr_expect(is_done(done, 10000));
    (void)waitpid(pid, NULL, 0);
    cr_expect_eq(*word, 0);
}

Test(word_lock, is_not_given_away_by_who_has_lost_it)
{
    uint64_t *word = shared_word();
    struct peer p = own(), other = p;
    other.pid++;
    word_lock(word, &other);
    word_unlock(word, &p);
    cr_expect_eq(*word, word_of(&other));
}

Test(word_lock, is_waited_for_as_long_as_one_will)
{
    uint64_t *word = shared_word();
    struct peer p = own(), other = p;
    other.pid = (uint32_t)getppid();
    other.pid_ns++;
    word_lock(word, &other);
    cr_expect_not(word_lock_within(word, &p, 2));
    word_unlock(word, &other);
    cr_expect(word_lock_within(word, &p, 2));
}

Test(word_lock, is_taken_from_a_process_that_ended_with_it)
{
    uint64_t *word = shared_word();
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p;
        if (peer_own(&p))
            word_lock(word, &p);
        _exit(0);
    }
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_assert_eq((*word & 0x7fffffff), (uint32_t)pid);
    have(word);
}

Test(word_lock, is_taken_from_a_process_whose_pid_another_has)
{
    uint64_t *word = shared_word();
    struct peer before = own();
    before.pid = (uint32_t)getppid();
    before.started -= 1;
    *word = word_of(&before);
    have(word);
}

/* exec ends all threads of a process, also one that is inside. */
Test(word_lock, is_taken_from_this_process_before_its_exec)
{
    uint64_t *word = shared_word();
    struct peer p = own();
    *word = word_of(&p);
    have(word);
}

Test(word_lock, is_taken_from_another_namespaces_process_after_two_seconds)
{
    uint64_t *word = shared_word();
    struct peer far = own();
    int done = -1;
    far.pid_ns++;
    far.pid = 1;
    *word = word_of(&far);
    pid_t pid = start_waiter(word, &done);
    cr_expect_not(is_done(done, 1000));
    cr_expect(is_done(done, 10000));
    (void)waitpid(pid, NULL, 0);
}

/* What a container may write there; a lock that lives is honoured, everything else is taken over. */
Test(word_lock, survives_nonsense)
{
    uint64_t *word = shared_word();
    struct peer p = own();
    uint64_t mark = (uint64_t)peer_mark(&p) << 32U;
    const uint64_t words[] =
        {mark, mark | 0x80000000U, mark | 0x7fffffffU, mark | 0xffffffffU, UINT64_MAX,
         1,    UINT64_C(1) << 63U};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        *word = words[i];
        have(word);
    }
}
