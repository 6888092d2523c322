/* SPDX-License-Identifier: Apache-2.0 */
#include "test/sim/step.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/state.h"

enum { SKIPPED = 77 };

static const struct state_file *map_state(void)
{
    int fd = open(getenv("CLEAVE_SIM_STATE"), O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, sizeof(struct state_file), PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED)
        abort();
    (void)close(fd);
    return at;
}

static int wait_status(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        abort();
    return status;
}

static bool stopped_itself(int status)
{
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
}

/* What the next process to open the file would take for the hardware. */
static const struct hw *active(const struct state_file *file)
{
    return &file->copies[file->active].hw;
}

/* One call, to the child's next stop. Sees the hardware switch at most once. */
static unsigned long step_through(pid_t pid, const struct state_file *file)
{
    static struct hw before;
    static struct hw after;
    unsigned long steps = 0;
    bool switched = false;
    before = *active(file);
    for (;;) {
        (void)ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
        int status = wait_status(pid);
        if (stopped_itself(status))
            break;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            exit(1);
        steps++;
        const struct hw *now = active(file);
        if (!switched && memcmp(now, &before, sizeof(before)) != 0) {
            switched = true;
            after = *now;
        } else if (switched && memcmp(now, &after, sizeof(after)) != 0) {
            (void)fprintf(stderr, "torn hardware after %lu instructions\n", steps);
            exit(1);
        }
    }
    if (!switched) {
        (void)fprintf(stderr, "the call changed nothing\n");
        exit(1);
    }
    return steps;
}

int step_main(change_fn *change, int calls)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(SKIPPED);
        change();
        _exit(0);
    }
    int status = wait_status(pid);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    const struct state_file *file = map_state();
    unsigned long steps = 0;
    for (int i = 0; i < calls; i++)
        steps += step_through(pid, file);
    (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
    (void)wait_status(pid);
    (void)printf("%lu\n", steps);
    return 0;
}
