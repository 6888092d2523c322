/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/child.h"

TestSuite(child, .init = folder_enter, .fini = folder_leave, .timeout = 20);

static char shell[] = "/bin/sh", dash_c[] = "-c", name_of_env[] = "NAME=value";

static void start(const char *script, const char *input, struct child *ret)
{
    auto_free char *text = xstrdup(script);
    char *argv[] = {shell, dash_c, text, NULL};
    char *env[] = {name_of_env, NULL};
    auto_err struct err e = {0};
    cr_assert_eq(child_start(argv, env, input, ret, &e), 0, "%s", err_msg(&e));
}

static int end(struct child *c)
{
    struct pollfd ended = {.fd = c->pidfd, .events = POLLIN};
    cr_assert_eq(poll(&ended, 1, -1), 1);
    return child_reap(c);
}

static char *written(void)
{
    char *text = NULL;
    cr_assert_eq(file_read("out", 4096, &text, /* ret_len= */ NULL, NULL), 0);
    return text;
}

Test(child, end_is_a_status)
{
    struct child c = {0};
    start("exit 7", /* input= */ NULL, &c);
    cr_expect_eq(end(&c), 7);
    cr_expect_eq(c.pid, 0);
}

Test(child, signal_is_a_status_beyond_128)
{
    struct child c = {0};
    start("kill -9 $$", /* input= */ NULL, &c);
    cr_expect_eq(end(&c), 137);
}

Test(child, input_and_environment_are_what_was_given)
{
    struct child c = {0};
    start("{ cat; echo $NAME; } > out", "two\nlines\n", &c);
    cr_expect_eq(end(&c), 0);
    auto_free char *text = written();
    cr_expect_str_eq(text, "two\nlines\nvalue\n");
}

Test(child, without_input_there_is_none)
{
    struct child c = {0};
    start("cat > out", /* input= */ NULL, &c);
    cr_expect_eq(end(&c), 0);
    auto_free char *text = written();
    cr_expect_str_eq(text, "");
}

Test(child, signals_that_the_agent_blocks_reach_it)
{
    sigset_t all;
    (void)sigfillset(&all);
    cr_assert_eq(sigprocmask(SIG_BLOCK, &all, NULL), 0);
    struct child c = {0};
    start("exec sleep 60", /* input= */ NULL, &c);
    child_signal(&c, SIGTERM);
    cr_expect_eq(end(&c), 128 + SIGTERM);
}

Test(child, it_has_no_descriptors_of_the_agents)
{
    auto_fd int fd = open("out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct child c = {0};
    auto_free char *script = xasprintf("[ ! -e /proc/self/fd/%d ]", fd);
    start(script, "input", &c);
    cr_expect_eq(end(&c), 0);
}

Test(child, program_that_is_not_there_is_an_error)
{
    char nowhere[] = "./nowhere";
    char *argv[] = {nowhere, NULL};
    char *env[] = {NULL};
    struct child c = {0};
    auto_err struct err e = {0};
    cr_expect_eq(child_start(argv, env, /* input= */ NULL, &c, &e), -ERR_SYSTEM);
    cr_expect_eq(c.pid, 0);
}

Test(child, one_that_does_not_go_is_made_to)
{
    struct child c = {0};
    start("trap '' TERM; echo > out; while :; do :; done", /* input= */ NULL, &c);
    pid_t pid = c.pid;
    while (access("out", F_OK) != 0)
        cr_assert_eq(kill(pid, 0), 0);
    child_done(&c, /* grace_ms= */ 0);
    cr_expect_eq(c.pid, 0);
    cr_expect_neq(kill(pid, 0), 0);
}
