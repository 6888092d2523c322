/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/commands/cmd.h"

/*
 * cleave-watch waits for the driver's events for cleave-agent (nodeagent/gpu/gpu_watch.h). It is
 * apart from cleave-child, because a process keeps pages of all that its program has in it.
 */
int main(int argc, char **argv)
{
    (void)mallopt(M_ARENA_MAX, 1);
    if (argc > 1 && strcmp(argv[1], "watch-events") == 0)
        return cmd_watch_events(argc - 1, argv + 1);
    (void)fputs("cleave-watch is run by cleave-agent\n", stderr);
    return 2;
}
