/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "nodeagent/commands/cmd.h"
#include "nodeagent/vendor/vendors.h"

static int watch(const char *library, struct err *e)
{
    for (size_t i = 0; vendor_backends[i]; i++)
        if (vendor_backends[i]->watch_events)
            return vendor_backends[i]->watch_events(library, STDOUT_FILENO, e);
    return err_set(e, ERR_NOT_FOUND, "no vendor's driver reports events");
}

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
    if (watch(argc == 2 ? argv[1] : NULL, &e) < 0) {
        (void)fprintf(stderr, "cleave-agent watch-events: %s\n", err_msg(&e));
        return 1;
    }
    return 0;
}
