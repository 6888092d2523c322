/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/proc_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sim/proc_driver.h"
#include "sim/proc_files.h"

bool proc_tree_boot(const struct hw *hw, bool is_old)
{
    static const char name[] = "sys/kernel/random/boot_id";
    char line[sizeof(hw->boot_id) + 2];
    if (proc_root() == NULL)
        return true;
    (void)stpcpy(stpcpy(line, hw->boot_id), "\n");
    bool known = proc_holds(name, line);
    return (known || proc_driver_load(hw)) &&
           ((known && !is_old) || proc_driver_sync(hw, HW_NONE)) &&
           (known || proc_write(name, line));
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
    char name[32];
    (void)snprintf(name, sizeof(name), "%u/cgroup", pid);
    return proc_exists(name);
}

bool proc_tree_add(const struct proc_facts *facts)
{
    char name[32];
    char comm[32];
    char cgroup[512];
    if (proc_root() == NULL || (facts->pod_uid == NULL && is_there(facts->pid)))
        return true;
    (void)snprintf(name, sizeof(name), "%u/comm", facts->pid);
    (void)snprintf(comm, sizeof(comm), "%.15s\n", facts->name);
    if (!proc_write(name, comm))
        return false;
    (void)snprintf(name, sizeof(name), "%u/cgroup", facts->pid);
    cgroup_line(facts, cgroup, sizeof(cgroup));
    return proc_write(name, cgroup);
}

static void remove_entry(const char *name)
{
    static const char *const files[] = {"/cgroup", "/comm", ""};
    char path[NAME_MAX + 16];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", name, files[i]);
        proc_remove(path);
    }
}

void proc_tree_remove(uint32_t pid)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "%u", pid);
    if (proc_root() != NULL)
        remove_entry(name);
}

void proc_tree_remove_all(void)
{
    DIR *dir = proc_root() != NULL ? opendir(proc_root()) : NULL;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (isdigit((unsigned char)e->d_name[0]))
            remove_entry(e->d_name);
    }
    if (dir != NULL)
        (void)closedir(dir);
}
