/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/peer.h"

/* A process that ends when told to. */
struct child {
    pid_t pid;
    int hold; /* closed: it ends */
    struct peer peer;
};

static struct child child_start(void)
{
    int hold[2], told[2];
    struct child c = {0};
    cr_assert_eq(pipe(hold) | pipe(told), 0);
    c.pid = fork();
    if (c.pid == 0) {
        char nothing;
        (void)close(hold[1]);
        bool ok = peer_own(&c.peer) && write(told[1], &c.peer, sizeof(c.peer)) > 0;
        (void)!read(hold[0], &nothing, 1);
        _exit(!ok);
    }
    (void)close(hold[0]);
    cr_assert_eq(read(told[0], &c.peer, sizeof(c.peer)), (ssize_t)sizeof(c.peer));
    c.hold = hold[1];
    return c;
}

/* It is a zombie when this returns. */
static void child_end(const struct child *c)
{
    siginfo_t info;
    (void)close(c->hold);
    cr_assert_eq(waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT), 0);
}

static struct peer own(void)
{
    struct peer p;
    cr_assert(peer_own(&p));
    return p;
}

Test(peer, is_this_process)
{
    struct peer p = own();
    cr_expect_eq(p.pid, (uint32_t)getpid());
    cr_expect_gt(p.started, 0);
    cr_expect_gt(p.pid_ns, 0);
    cr_expect_not(peer_is_gone(&p, &p));
}

Test(peer, is_there_while_it_runs_and_gone_once_it_has_ended)
{
    struct peer by = own();
    struct child c = child_start();
    uint32_t mark = peer_mark(&c.peer);
    cr_expect_not(peer_is_gone(&c.peer, &by));
    cr_expect_not(peer_mark_is_gone(c.peer.pid, mark, &by));
    child_end(&c);
    cr_expect(peer_is_gone(&c.peer, &by), "a zombie has nothing any more");
    (void)waitpid(c.pid, NULL, 0);
    cr_expect(peer_is_gone(&c.peer, &by));
    cr_expect(peer_mark_is_gone(c.peer.pid, mark, &by));
}

Test(peer, is_there_while_it_is_stopped)
{
    struct peer by = own();
    struct child c = child_start();
    cr_assert_eq(kill(c.pid, SIGSTOP), 0);
    (void)waitpid(c.pid, NULL, WUNTRACED);
    cr_expect_not(peer_is_gone(&c.peer, &by));
    (void)kill(c.pid, SIGKILL);
}

Test(peer, of_another_time_is_gone_though_its_pid_is_taken)
{
    struct peer by = own(), before = by;
    before.started -= 1;
    cr_expect(peer_is_gone(&before, &by));
    cr_expect(peer_mark_is_gone(before.pid, peer_mark(&before), &by));
    before.started = 0;
    cr_expect_not(peer_is_gone(&before, &by), "its time is not known");
}

/* Nothing can be said of it: its pid is another process's here. */
Test(peer, of_another_namespace_is_never_gone)
{
    struct peer by = own(), far = {.pid = 0x3fffffff, .pid_ns = by.pid_ns + 1, .started = 1};
    cr_expect_not(peer_is_gone(&far, &by));
    cr_expect(peer_mark_is_foreign(peer_mark(&far), &by));
    cr_expect_not(peer_mark_is_gone(far.pid, peer_mark(&far), &by));
    far.pid_ns = by.pid_ns;
    cr_expect(peer_is_gone(&far, &by));
}

Test(peer, that_does_not_know_its_namespace_takes_nobody_for_gone)
{
    struct peer by = own(), other = {.pid = 0x3fffffff, .started = 1};
    by.pid_ns = 0;
    cr_expect_not(peer_is_gone(&other, &by));
    cr_expect_not(peer_mark_is_gone(other.pid, peer_mark(&other), &by));
}

Test(peer, pids_that_no_process_can_have_are_gone)
{
    static const uint32_t pids[] = {0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    struct peer by = own();
    for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
        struct peer p = {.pid = pids[i], .pid_ns = by.pid_ns, .started = 1};
        cr_expect(peer_is_gone(&p, &by), "%u", pids[i]);
    }
    cr_expect(peer_mark_is_gone(0, peer_mark(&by), &by));
}

/* A program may change its root after it has attached. What the child of this fork says: 0 as it
 * should be. */
static int without_proc(const struct child *running, const struct child *ended,
                        const struct peer *by)
{
    if (chroot("/dev") != 0)
        return 77;
    return peer_is_gone(&running->peer, by) || !peer_is_gone(&ended->peer, by);
}

Test(peer, is_there_for_a_process_that_has_no_proc)
{
    int status = 0;
    struct peer by = own();
    struct child running = child_start(), ended = child_start();
    child_end(&ended);
    (void)waitpid(ended.pid, NULL, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(without_proc(&running, &ended, &by));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (status == 77 << 8)
        cr_skip_test("only root may change it");
    cr_expect_eq(status, 0);
}

static void *end_last(void *arg)
{
    char nothing;
    (void)!read(*(const int *)arg, &nothing, 1);
    _exit(0);
}

/* pthread_exit in main leaves a process whose state says zombie. */
Test(peer, is_there_as_long_as_one_of_its_threads)
{
    int hold[2], told[2];
    struct peer by = own(), p;
    cr_assert_eq(pipe(hold) | pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        (void)close(hold[1]);
        (void)pthread_create(&thread, NULL, end_last, &hold[0]);
        (void)!(peer_own(&p) && write(told[1], &p, sizeof(p)) > 0);
        pthread_exit(NULL);
    }
    (void)close(hold[0]);
    cr_assert_eq(read(told[0], &p, sizeof(p)), (ssize_t)sizeof(p));
    for (int i = 0; i < 1000; i++) {
        cr_assert_not(peer_is_gone(&p, &by));
        (void)sched_yield();
    }
    (void)close(hold[1]);
    (void)waitpid(pid, NULL, 0);
    cr_expect(peer_is_gone(&p, &by));
}

/* What the child of this fork says, as above. */
static int in_new_namespace(void)
{
    int status = 0;
    struct peer p = {.pid_ns = 1};
    if (unshare(CLONE_NEWPID) != 0)
        return 77;
    pid_t pid = fork();
    if (pid == 0)
        _exit(peer_own(&p) && p.pid == 1 && p.pid_ns == 0 && p.started > 0 ? 0 : 1);
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

/* As `unshare --pid` without a new /proc: the pids that it shows are others'. */
Test(peer, does_not_know_its_namespace_where_proc_is_anothers)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_new_namespace());
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (status == 77 << 8)
        cr_skip_test("no PID namespace can be made here");
    cr_expect_eq(status, 0);
}
