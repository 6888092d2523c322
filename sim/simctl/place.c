/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a folder that serves as the root of a host. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/simctl/simctl.h"

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            die("%s: %s", path, strerror(errno));
        *p = '/';
    }
}

void place_file(const char *root, const char *name, char *ret, size_t size)
{
    int n = snprintf(ret, size, "%s/%s", root, name);
    if (n < 0 || (size_t)n >= size)
        die("a path is too long");
    make_parents(ret);
}
