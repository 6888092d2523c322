/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "nodeagent/commands/cmd.h"
#include "nodeagent/gpu/nvml_events.h"

/*
 * `cleave-agent watch-events [LIBRARY]`: the child in which the agent waits for hardware events.
 * Writes records to stdout and dies with the agent.
 */
int cmd_watch_events(int argc, char **argv)
{
    auto_err struct err e = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc > 2 || isatty(STDOUT_FILENO)) {
        (void)fputs("usage: cleave-agent watch-events [LIBRARY] | ...  (run by the agent)\n",
                    stderr);
        return 2;
    }
    if (nvml_events_run(argc == 2 ? argv[1] : NULL, STDOUT_FILENO, &e) < 0) {
        (void)fprintf(stderr, "cleave-agent watch-events: %s\n", err_msg(&e));
        return 1;
    }
    return 0;
}
