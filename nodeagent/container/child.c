/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/child.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/spawn.h"

/* A file in memory instead of a pipe, so that the agent need not write while the child reads. */
static int open_input(const char *text, int *ret_fd, struct err *e)
{
    auto_fd int fd = memfd_create("input", MFD_CLOEXEC);
    size_t len = strlen(text);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET) < 0)
        return err_set_errno(e, errno, "prepare input");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int child_start(char *const argv[], char *const env[], const char *input, struct child *ret,
                struct err *e)
{
    auto_fd int input_fd = -1;
    pid_t pid;
    if (input)
        TRY(open_input(input, &input_fd, e));
    const int fds[] = {input_fd >= 0 ? input_fd : SPAWN_NULL, SPAWN_NULL, SPAWN_NULL};
    int failure = spawn(argv[0], argv, env, fds, &pid);
    if (failure)
        return err_set_errno(e, failure, "start %s", argv[0]);
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        int saved_errno = errno;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return err_set_errno(e, saved_errno, "watch %s", argv[0]);
    }
    assert(pid > 0); /* 0 is: no child */
    *ret = (struct child){pid, pidfd};
    return 0;
}

void child_signal(const struct child *c, int signal)
{
    if (c->pid)
        (void)kill(c->pid, signal);
}

static void clear_child(struct child *c)
{
    assert(c->pidfd >= 0);
    (void)close(c->pidfd);
    *c = (struct child){0};
}

int child_reap(struct child *c)
{
    int status = 0;
    assert(c->pid);
    (void)waitpid(c->pid, &status, 0);
    clear_child(c);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_done(struct child *c, int grace_ms)
{
    if (!c || !c->pid)
        return;
    struct pollfd end = {.fd = c->pidfd, .events = POLLIN};
    (void)kill(c->pid, SIGTERM);
    if (poll(&end, 1, grace_ms) != 1)
        (void)kill(c->pid, SIGKILL);
    (void)waitpid(c->pid, NULL, 0);
    clear_child(c);
}
