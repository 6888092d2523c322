/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Does nothing until it is told to end, and reaps. The first process of a node's PID namespace and
 * of every pod, and what keeps a network namespace. Linked statically: an image holds nothing else.
 */

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static void reap(int signal_number)
{
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void)
{
    const struct sigaction on_end = {.sa_handler = end};
    const struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP | SA_RESTART};

    (void)sigaction(SIGINT, &on_end, NULL);
    (void)sigaction(SIGTERM, &on_end, NULL);
    (void)sigaction(SIGCHLD, &on_child, NULL);
    for (;;)
        (void)pause();
}
