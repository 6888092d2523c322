/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/commands/cmd.h"
#include "service/http_child.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} verbs[] = {
    {"run", cmd_run, "serve this node of a cluster"},
    {"inspect", cmd_inspect, "draw every card: its slices free, cut, in use"},
    {"plan", cmd_plan, "show what apply would do"},
    {"apply", cmd_apply, "bring this host's cards to a layout"},
    {"assert", cmd_assert, "exit with 0 if the cards are as a file wants them"},
    {"export", cmd_export, "print this host's layout as a MIGConfig or mig-parted file"},
    {"import", cmd_import,
     "turn a mig-parted file, or MetaX's or HAMi's ConfigMaps, into our objects"},
    {"watch-events", cmd_watch_events, "(run by the agent) wait for what the driver reports"},
    {HTTP_CHILD_VERB, http_child_main, "(run by the agent) serve health and metrics"},
};

static int usage(FILE *out, int code)
{
    (void)fputs("usage: cleave-agent VERB [flags]   (VERB --help tells more)\n\n", out);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        (void)fprintf(out, "  %-12s %s\n", verbs[i].name, verbs[i].what);
    (void)fputs(
        "  version      print the version\n\n"
        "Exits with 0: it is so, or done; 1: it is not so, or not done; 2: nobody could look\n"
        "(wrong usage, a bad file, no driver).\n",
        out);
    return code;
}

enum { MAPPED_BYTES = 32 << 10 };

int main(int argc, char **argv)
{
    /* One arena: an agent has few threads and a small budget of memory. What a reading or a status
     * needs in one piece is mapped by itself, and leaves no hole in the heap behind. */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    json_set_alloc_funcs(xmalloc, free);
    if (argc < 2)
        return usage(stderr, 2);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return usage(stdout, 0);
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0)
        return printf("cleave-agent %s\n", CLEAVE_VERSION) < 0;
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    (void)fprintf(stderr, "cleave-agent: unknown verb \"%s\"\n", argv[1]);
    return usage(stderr, 2);
}
