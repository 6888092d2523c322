/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/spawn.h"
#include "base/xalloc.h"

static int status_of(pid_t pid)
{
    int status = -1;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* What a program says on its standard output. */
static char *said_by(const char *file, const char *const args[])
{
    char *env[] = {(char[]){"KEPT=yes"}, NULL};
    auto_sb struct sb out = SB_INIT(65536);
    char chunk[4096];
    int ends[2];
    pid_t pid;
    ssize_t n;
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = {SPAWN_NULL, ends[1], SPAWN_OURS};
    cr_assert_eq(spawn(file, (char *const *)(uintptr_t)args, env, fds, &pid), 0);
    (void)close(ends[1]);
    while ((n = read(ends[0], chunk, sizeof(chunk))) > 0)
        sb_add_mem(&out, chunk, (size_t)n);
    (void)close(ends[0]);
    cr_expect_eq(status_of(pid), 0);
    return sb_take(&out);
}

/* What ends a script. */
static int signal_of(const char *script)
{
    const char *const args[] = {"sh", "-c", script, NULL};
    const int fds[] = {SPAWN_NULL, SPAWN_NULL, SPAWN_NULL};
    pid_t pid;
    cr_assert_eq(spawn("/bin/sh", (char *const *)(uintptr_t)args, environ, fds, &pid), 0);
    int status = status_of(pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static char *said_in_shell(const char *script)
{
    const char *const args[] = {"sh", "-c", script, NULL};
    return said_by("/bin/sh", args);
}

Test(spawn, what_we_block_and_ignore_it_does_not)
{
    sigset_t blocked;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    cr_expect_eq(signal_of("kill -s TERM $$"), SIGTERM);
    cr_expect_eq(signal_of("kill -s PIPE $$"), SIGPIPE);
}

Test(spawn, it_has_three_descriptors)
{
    int not_closed = dup(STDOUT_FILENO);
    const char *const args[] = {"ls", "/proc/self/fd", NULL};
    auto_free char *said = said_by("ls", args);
    (void)close(not_closed);
    cr_expect_str_eq(said, "0\n1\n2\n3\n"); /* the last is that of the folder */
}

Test(spawn, its_environment_is_what_it_was_given)
{
    auto_free char *said = said_in_shell("tr '\\0' ' ' </proc/self/environ");
    cr_expect_not_null(strstr(said, "KEPT=yes"));
    cr_expect_null(strstr(said, "HOME="));
}

Test(spawn, a_name_without_slash_is_looked_for)
{
    const char *const args[] = {"echo", "here", NULL};
    auto_free char *said = said_by("echo", args);
    cr_expect_str_eq(said, "here\n");
}

Test(spawn, a_program_that_is_not_there_is_told)
{
    char *none[] = {(char[]){"x"}, NULL};
    const int fds[] = {SPAWN_NULL, SPAWN_NULL, SPAWN_NULL};
    pid_t pid;
    cr_expect_eq(spawn("/no/such/program", none, none + 1, fds, &pid), ENOENT);
    cr_expect_eq(spawn("no-such-program", none, none + 1, fds, &pid), ENOENT);
}

Test(spawn, children_run_our_own_program_where_they_have_none_beside_it)
{
    auto_free char *program = spawn_child_program("no-such-child");
    cr_assert_str_eq(program, "/proc/self/exe");
}
