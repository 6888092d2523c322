/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/proc_files.h"

#include <errno.h>
#include <fcntl.h>
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
    const char *root = proc_root();
    if (strlen(root) + 1 + strlen(name) >= size) {
        errno = ENAMETOOLONG;
        return false;
    }
    (void)stpcpy(stpcpy(stpcpy(ret_path, root), "/"), name);
    return true;
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
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    return n > 0 && strncmp(text, line, strlen(line)) == 0;
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
