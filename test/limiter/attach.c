/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes with CUDA at once: attach N [M]
 *
 * N processes initialise CUDA and stay; then one by one M more, each in the place of one of the
 * first that has ended. Prints how many succeeded of the N, and of the M.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned int flags);

enum { MAX_PROCESSES = 2000 };

static pid_t start(const int said[2], const int hold[2])
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char byte = (char)('0' + (cuInit(0) == 0));
    (void)close(hold[1]);
    (void)!write(said[1], &byte, 1);
    (void)!read(hold[0], &byte, 1);
    _exit(0);
}

/* Of n answers. */
static int count(int said, int n)
{
    int good = 0;
    char byte = '0';
    for (int i = 0; i < n && read(said, &byte, 1) == 1; i++)
        good += byte - '0';
    return good;
}

int main(int argc, char **argv)
{
    static pid_t pids[MAX_PROCESSES];
    int said[2], hold[2], n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0,
                          m = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (n > MAX_PROCESSES || m > n || pipe(said) != 0 || pipe(hold) != 0)
        return 2;
    (void)alarm(200);
    for (int i = 0; i < n; i++)
        pids[i] = start(said, hold);
    int first = count(said[0], n), later = 0;
    for (int i = 0; i < m; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
        pids[i] = start(said, hold);
        later += count(said[0], 1);
    }
    (void)printf("%d %d\n", first, later);
    (void)close(hold[1]);
    while (wait(NULL) > 0)
        ;
    return 0;
}
