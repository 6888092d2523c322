/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#define OURSELVES "/proc/self/exe"

/* Our programs block signals for sigwait and ignore SIGPIPE; a child would inherit both. */
static void reset_signals(posix_spawnattr_t *attr)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_setsigmask(attr, &none);
    (void)posix_spawnattr_setsigdefault(attr, &all);
    (void)posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* Copies each descriptor above the program's numbers, so that moving one to its number cannot
 * overwrite another that is still to be moved. */
static int copy_above(const int *fds, size_t n, int *ret_copies)
{
    int failure = 0;
    for (size_t i = 0; i < n; i++) {
        ret_copies[i] = fds[i] < 0 ? fds[i] : fcntl(fds[i], F_DUPFD_CLOEXEC, (int)n);
        if (fds[i] >= 0 && ret_copies[i] < 0 && !failure)
            failure = errno;
    }
    return failure;
}

static void close_copies(const int *copies, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (copies[i] >= 0)
            (void)close(copies[i]);
}

static void set_descriptors(posix_spawn_file_actions_t *actions, const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fds[i] == SPAWN_NULL)
            (void)posix_spawn_file_actions_addopen(actions, (int)i, "/dev/null",
                                                   i == 0 ? O_RDONLY : O_WRONLY, 0);
        else if (fds[i] != SPAWN_OURS)
            (void)posix_spawn_file_actions_adddup2(actions, fds[i], (int)i);
    }
    /* Our descriptors are close-on-exec; those opened by a vendor's library need not be. */
    (void)posix_spawn_file_actions_addclosefrom_np(actions, (int)n);
}

int spawn_with(const char *file, char *const argv[], char *const env[], const int *fds,
               size_t n_fds, pid_t *ret)
{
    assert(n_fds > STDERR_FILENO && n_fds <= SPAWN_MAX_FDS);
    int copies[SPAWN_MAX_FDS];
    int failure = copy_above(fds, n_fds, copies);
    if (!failure) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawnattr_init(&attr);
        reset_signals(&attr);
        set_descriptors(&actions, copies, n_fds);
        failure = posix_spawnp(ret, file, &actions, &attr, argv, env);
        (void)posix_spawnattr_destroy(&attr);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    close_copies(copies, n_fds);
    return failure;
}

int spawn(const char *file, char *const argv[], char *const env[], const int fds[3], pid_t *ret)
{
    return spawn_with(file, argv, env, fds, 3, ret);
}

char *spawn_child_program(const char *name)
{
    assert(name);
    char own[PATH_MAX];
    ssize_t n = readlink(OURSELVES, own, sizeof(own) - 1);
    const char *slash = n > 0 ? memrchr(own, '/', (size_t)n) : NULL;
    if (!slash)
        return xstrdup(OURSELVES);
    auto_free char *beside = xasprintf("%.*s/%s", (int)(slash - own), own, name);
    return access(beside, X_OK) == 0 ? TAKE(beside) : xstrdup(OURSELVES);
}
