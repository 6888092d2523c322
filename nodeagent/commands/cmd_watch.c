/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/num.h"

#include "nodeagent/commands/cmd.h"
#include "nodeagent/vendor/vendor_backend.h"

/*
 * `cleave-agent watch-events BEAT_MS [LIBRARY]`: the child in which the agent waits for hardware
 * events. Writes records to stdout, beats to stdin, a second pipe, and dies with the agent.
 */
int cmd_watch_events(int argc, char **argv)
{
    auto_err struct err e = {0};
    int64_t beat_ms = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 2 || argc > 3 || isatty(STDOUT_FILENO) ||
        num_parse(argv[1], 1, INT32_MAX, &beat_ms, &e) < 0) {
        (void)
            fputs("usage: cleave-agent watch-events BEAT_MS [LIBRARY] | ...  (run by the agent)\n",
                  stderr);
        return 2;
    }
    if (vendor_watch_events(argc == 3 ? argv[2] : NULL, (int)beat_ms, STDIN_FILENO, STDOUT_FILENO,
                            &e) < 0) {
        (void)fprintf(stderr, "cleave-agent watch-events: %s\n", err_msg(&e));
        return 1;
    }
    return 0;
}
