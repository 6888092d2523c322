/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake /proc below CLEAVE_SIM_PROC: <pid>/cgroup, <pid>/comm and sys/kernel/random/boot_id, for
 * programs that look a pid up to learn whose it is.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/simctl/simctl.h"

static const char *root(void)
{
    const char *dir = getenv("CLEAVE_SIM_PROC");
    return dir != NULL && *dir != '\0' ? dir : NULL;
}

static void make_dirs(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            die("%s: %s", path, strerror(errno));
        *p = '/';
    }
}

/* Whole at once: a reader sees the old content or the new. */
static void write_file(const char *content, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void write_file(const char *content, const char *format, ...)
{
    char path[PATH_MAX];
    char draft[PATH_MAX + 8];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    if (length >= (int)sizeof(path))
        die("CLEAVE_SIM_PROC is too long");
    make_dirs(path);
    (void)snprintf(draft, sizeof(draft), "%s.new", path);
    FILE *out = fopen(draft, "we");
    bool written = out != NULL && fputs(content, out) >= 0;
    written = out != NULL && fclose(out) == 0 && written;
    if (!written || rename(draft, path) != 0)
        die("%s: %s", path, strerror(errno));
}

/* The library may have made the machine; whichever command comes first then writes its boot id. */
void proc_tree_boot(const char *boot_id)
{
    char line[64];
    if (root() == NULL)
        return;
    (void)snprintf(line, sizeof(line), "%s\n", boot_id);
    write_file(line, "%s/sys/kernel/random/boot_id", root());
}

/* The systemd cgroup driver's path: dashes of the uid become underscores. */
static void cgroup_line(const struct proc_facts *f, char *out, size_t size)
{
    char uid[128];
    if (f->pod_uid == NULL) {
        (void)snprintf(out, size, "0::/system.slice/%s.service\n", f->name);
        return;
    }
    (void)snprintf(uid, sizeof(uid), "%s", f->pod_uid);
    for (char *c = uid; (c = strchr(c, '-')) != NULL;)
        *c = '_';
    (void)snprintf(out, size,
                   "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/"
                   "cri-containerd-%s.scope\n",
                   uid, f->container != NULL ? f->container : "c0ffee");
}

/* A process on several cards is one entry: the pod that the first attach named stays. */
static bool is_there(uint32_t pid)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%u/cgroup", root(), pid) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

void proc_tree_add(const struct proc_facts *facts)
{
    char line[512];
    if (root() == NULL || (facts->pod_uid == NULL && is_there(facts->pid)))
        return;
    cgroup_line(facts, line, sizeof(line));
    write_file(line, "%s/%u/cgroup", root(), facts->pid);
    (void)snprintf(line, sizeof(line), "%.15s\n", facts->name);
    write_file(line, "%s/%u/comm", root(), facts->pid);
}

static void remove_entry(const char *name)
{
    static const char *const files[] = {"/cgroup", "/comm", ""};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (snprintf(path, sizeof(path), "%s/%s%s", root(), name, files[i]) < (int)sizeof(path))
            (void)remove(path);
    }
}

void proc_tree_remove(uint32_t pid)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "%u", pid);
    if (root() != NULL)
        remove_entry(name);
}

void proc_tree_remove_all(void)
{
    DIR *dir = root() != NULL ? opendir(root()) : NULL;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (isdigit((unsigned char)e->d_name[0]))
            remove_entry(e->d_name);
    }
    if (dir != NULL)
        (void)closedir(dir);
}
