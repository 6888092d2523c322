/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/proc_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *root(void)
{
    const char *dir = getenv("CLEAVE_SIM_PROC");
    return dir != NULL && *dir != '\0' ? dir : NULL;
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

/* Whole at once: a reader sees the old content or the new. */
static bool write_file(const char *name, const char *content)
{
    char path[PATH_MAX];
    char draft[PATH_MAX + 8];
    if (snprintf(path, sizeof(path), "%s/%s", root(), name) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    (void)snprintf(draft, sizeof(draft), "%s.new", path);
    return make_dirs(path) && write_draft(draft, content) && rename(draft, path) == 0;
}

static bool holds(const char *name, const char *content)
{
    char path[PATH_MAX];
    char text[128] = "";
    if (snprintf(path, sizeof(path), "%s/%s", root(), name) >= (int)sizeof(path))
        return false;
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    bool same = fgets(text, sizeof(text), in) != NULL && strcmp(text, content) == 0;
    (void)fclose(in);
    return same;
}

bool proc_tree_boot(const char *boot_id)
{
    static const char name[] = "sys/kernel/random/boot_id";
    char line[64];
    (void)snprintf(line, sizeof(line), "%s\n", boot_id);
    return root() == NULL || holds(name, line) || write_file(name, line);
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

static bool is_there(uint32_t pid)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%u/cgroup", root(), pid) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

bool proc_tree_add(const struct proc_facts *facts)
{
    char name[32];
    char comm[32];
    char cgroup[512];
    if (root() == NULL || (facts->pod_uid == NULL && is_there(facts->pid)))
        return true;
    (void)snprintf(name, sizeof(name), "%u/comm", facts->pid);
    (void)snprintf(comm, sizeof(comm), "%.15s\n", facts->name);
    if (!write_file(name, comm))
        return false;
    (void)snprintf(name, sizeof(name), "%u/cgroup", facts->pid);
    cgroup_line(facts, cgroup, sizeof(cgroup));
    return write_file(name, cgroup);
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
