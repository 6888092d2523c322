/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "service/http_child.h"

/*
 * cleave-child serves HTTP for both programs (service/http_process.h). It has no API client
 * and no OpenSSL in it, so that a child costs a third of what it would as cleave-agent. Each program
 * has the same verb, for where this one does not lie beside it.
 */
int main(int argc, char **argv)
{
    (void)mallopt(M_ARENA_MAX, 1);
    if (argc > 1 && strcmp(argv[1], HTTP_CHILD_VERB) == 0)
        return http_child_main(argc - 1, argv + 1);
    (void)fputs("cleave-child is run by cleave-agent and cleave-controller\n", stderr);
    return 2;
}
