/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/proc_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *proc_root(void)
{
    const char *dir = getenv("CLEAVE_SIM_PROC");
    return dir != NULL && *dir != '\0' ? dir : NULL;
}

static bool path_of(const char *name, char *ret_path, size_t size)
{
    if (snprintf(ret_path, size, "%s/%s", proc_root(), name) < (int)size)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

static bool make_dirs(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        int rc = mkdir(path, 0777);
        *p = '/';
        if (rc != 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static bool write_draft(const char *draft, const char *content)
{
    FILE *out = fopen(draft, "we");
    if (out == NULL)
        return false;
    bool written = fputs(content, out) >= 0;
    return fclose(out) == 0 && written;
}

bool proc_write(const char *name, const char *content)
{
    char path[PATH_MAX];
    char draft[PATH_MAX + 8];
    if (!path_of(name, path, sizeof(path)))
        return false;
    (void)snprintf(draft, sizeof(draft), "%s.new", path);
    return make_dirs(path) && write_draft(draft, content) && rename(draft, path) == 0;
}

bool proc_holds(const char *name, const char *line)
{
    char path[PATH_MAX];
    char text[256] = "";
    if (!path_of(name, path, sizeof(path)))
        return false;
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    bool same = fgets(text, sizeof(text), in) != NULL && strcmp(text, line) == 0;
    (void)fclose(in);
    return same;
}

bool proc_exists(const char *name)
{
    char path[PATH_MAX];
    return path_of(name, path, sizeof(path)) && access(path, F_OK) == 0;
}

void proc_remove(const char *name)
{
    char path[PATH_MAX];
    if (path_of(name, path, sizeof(path)))
        (void)remove(path);
}
