/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

/* Our programs block signals for sigwait and ignore SIGPIPE; both would be inherited. */
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

static void set_descriptors(posix_spawn_file_actions_t *actions, const int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] == SPAWN_NULL)
            (void)posix_spawn_file_actions_addopen(actions, i, "/dev/null",
                                                   i == 0 ? O_RDONLY : O_WRONLY, 0);
        else if (fds[i] != SPAWN_OURS)
            (void)posix_spawn_file_actions_adddup2(actions, fds[i], i);
    }
    /* Ours are close-on-exec; those that a vendor's library opened need not be. */
    (void)posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

int spawn(const char *file, char *const argv[], char *const env[], const int fds[3], pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    reset_signals(&attr);
    set_descriptors(&actions, fds);
    int failure = posix_spawnp(ret, file, &actions, &attr, argv, env);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failure;
}
