/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

#include "controller/sandbox.h"

enum { REFUSED = 3, DONE = 4 };

static const struct sandbox rules = {.uid = 0, .max_fds = 16, .max_bytes = 0, .max_cpu_s = 10};

/* How a process ends that does this in the sandbox. */
static int status_of(void (*act)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        if (sandbox_drop(&rules, NULL) < 0 || sandbox_seal(/* sanitized= */ false, NULL) < 0)
            (void)syscall(SYS_exit_group, REFUSED);
        act();
        (void)syscall(SYS_exit_group, DONE); /* without what a sanitizer does at an _exit */
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_killed(void (*act)(void), const char *what)
{
    int status = status_of(act);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s: %#x", what, (unsigned)status);
}

static void serve_nothing(void)
{
}

static void open_socket(void)
{
    (void)socket(AF_INET, SOCK_STREAM, 0);
}

static void connect_somewhere(void)
{
    struct sockaddr a = {.sa_family = AF_UNIX};
    (void)connect(0, &a, sizeof(a));
}

static void run_something(void)
{
    char *argv[] = {NULL};
    (void)execve("/bin/true", argv, argv);
}

static void make_a_child(void)
{
    (void)vfork();
}

static void signal_another(void)
{
    (void)kill(getppid(), 0);
}

static void become_root(void)
{
    (void)setuid(0);
}

static void change_root(void)
{
    (void)chroot("/");
}

static void open_file(void)
{
    (void)open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static void make_code(void)
{
    (void)mprotect((void *)0x10000, 4096, PROT_READ | PROT_EXEC);
}

Test(sandbox, serving_what_is_open_is_allowed)
{
    int status = status_of(serve_nothing);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == DONE, "%#x", (unsigned)status);
}

Test(sandbox, everything_else_ends_the_process)
{
    expect_killed(open_socket, "socket");
    expect_killed(connect_somewhere, "connect");
    expect_killed(run_something, "execve");
    expect_killed(make_a_child, "vfork");
    expect_killed(signal_another, "kill");
    expect_killed(become_root, "setuid");
    expect_killed(change_root, "chroot");
    expect_killed(open_file, "open");
    expect_killed(make_code, "mprotect");
}
