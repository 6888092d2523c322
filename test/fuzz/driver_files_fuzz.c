/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/container/driver_files.h"

/*
 * Input: the making of a small tree, three bytes a step: what (a folder, file, socket, link, mode,
 * owner, removal), at which of the paths below, and with which target, mode or owner. Whatever tree
 * it is: nothing is found whose path leads through a link, or that, from the root down, somebody
 * else than root could have made or can change.
 */
#define MAX_STEPS 48
#define SOMEBODY  12345
#define VERSION   "570.86.15"

static const char *const paths[] = {
    "root",
    "root/usr",
    "root/usr/lib64",
    "root/usr/lib64/libcuda.so." VERSION,
    "root/usr/lib64/libnvidia-ml.so." VERSION,
    "root/usr/lib64/libnvidia-ml.so.1",
    "root/usr/lib64/vdpau",
    "root/usr/lib64/vdpau/libvdpau_nvidia.so." VERSION,
    "root/usr/bin",
    "root/usr/bin/nvidia-smi",
    "root/tmp",
    "root/tmp/nvidia-mps",
    "root/tmp/mine",
    "root/tmp/mine/socket",
    "root/run",
    "root/run/nvidia-persistenced",
    "root/run/nvidia-persistenced/socket",
    "root/var",
    "root/var/run",
    "root/var/run/nvidia-fabricmanager",
    "root/var/run/nvidia-fabricmanager/socket",
    "root/lib",
    "root/lib/firmware",
    "root/lib/firmware/nvidia/" VERSION,
    "root/lib/firmware/nvidia/" VERSION "/gsp_ga10x.bin",
    "root/etc",
    "root/etc/vulkan/icd.d",
    "root/etc/vulkan/icd.d/nvidia_icd.json",
};

static const char *const targets[] = {
    "/",
    "..",
    "../..",
    "../../../../etc",
    "/tmp",
    "/tmp/mine",
    "/tmp/mine/socket",
    "mine",
    "/usr/lib64",
    "../run",
    "socket",
    "libnvidia-ml.so." VERSION,
    "/usr/lib64/libcuda.so." VERSION,
    "/run/nvidia-persistenced",
    "/usr/bin/../lib64/./libcuda.so." VERSION,
    "",
};

static const unsigned modes[] = {0755, 0777, 01777, 0775, 0757, 0644, 0666, 0700, 04755, 0711};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char folder[64];
static char root[80]; /* in it, without links; paths[] is relative to the folder */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_tree(void)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_folder(void)
{
    remove_tree();
    (void)rmdir(folder);
}

static void make_folder(void)
{
    if (*folder)
        return;
    const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(folder, sizeof(folder), "%s/driver_files_fuzz.XXXXXX", in);
    bool made = mkdtemp(folder) != NULL;
    assert(made);
    (void)snprintf(root, sizeof(root), "%s/root", folder);
    log_setup(LOG_ERROR, LOG_LOGFMT, STDERR_FILENO);
    (void)atexit(remove_folder);
}

/* The folder that a path of ours lies in, made if missing. Through no link: the input makes links
 * to everywhere, and what is made and removed is to lie below root. -1: there is a link, or no
 * folder. */
static int open_parent(const char *path, const char **ret_name)
{
    int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *name = path;
    for (const char *slash = strchr(name, '/'); slash && at >= 0; slash = strchr(name, '/')) {
        auto_free char *part = xstrndup(name, (size_t)(slash - name));
        (void)mkdirat(at, part, 0755);
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(at);
        at = next;
        name = slash + 1;
    }
    *ret_name = name;
    return at;
}

static void change_mode(int at, const char *name, unsigned mode)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode))
        (void)!fchmodat(at, name, mode, 0);
}

static void change_owner(int at, const char *name, unsigned how)
{
    uid_t uid = how & 1 ? SOMEBODY : 0;
    gid_t gid = how & 2 ? SOMEBODY : 0;
    (void)!fchownat(at, name, uid, gid, AT_SYMLINK_NOFOLLOW);
}

static void remove_name(int at, const char *name)
{
    if (unlinkat(at, name, 0) < 0)
        (void)unlinkat(at, name, AT_REMOVEDIR);
}

/* Steps that cannot be taken are not. The root itself stays a folder. */
static void take_step(const uint8_t *step)
{
    enum { FOLDER, PLAIN, SOCKET, LINK, MODE, OWNER, REMOVAL, KINDS };
    unsigned kind = step[0] % KINDS;
    size_t which = step[1] % ARRAY_LEN(paths);
    const char *name = NULL;
    if (which == 0 && kind != MODE && kind != OWNER)
        return;
    auto_fd int at = open_parent(paths[which], &name);
    if (at < 0)
        return;
    unsigned mode = modes[step[2] % ARRAY_LEN(modes)];
    if (kind == FOLDER)
        (void)!mkdirat(at, name, 0755);
    else if (kind == PLAIN && mknodat(at, name, S_IFREG | 0600, 0) == 0)
        change_mode(at, name, mode);
    else if (kind == SOCKET)
        (void)!mknodat(at, name, S_IFSOCK | 0666, 0);
    else if (kind == LINK)
        (void)!symlinkat(targets[step[2] % ARRAY_LEN(targets)], at, name);
    else if (kind == MODE)
        change_mode(at, name, mode);
    else if (kind == OWNER)
        change_owner(at, name, step[2]);
    else if (kind == REMOVAL)
        remove_name(at, name);
}

/* Not through the code that is tested: each part of the path, one after the other. */
static struct stat check_part(const char *path)
{
    auto_free char *seen = xasprintf("%s%s", root, path);
    struct stat st;
    int rc = lstat(seen, &st);
    assert(rc == 0 && !S_ISLNK(st.st_mode));
    assert(st.st_uid == 0 || st.st_uid == geteuid());
    assert(S_ISSOCK(st.st_mode) || !(st.st_mode & (S_IWGRP | S_IWOTH)));
    return st;
}

static void check_path(const char *path)
{
    assert(path[0] == '/' && !strstr(path, "/../") && strncmp(path, "/tmp/nvidia-mps", 15) != 0);
    (void)check_part("");
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        auto_free char *part = xstrndup(path, (size_t)(slash - path));
        (void)check_part(part);
    }
    struct stat st = check_part(path);
    assert(S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct driver_files_where where = {.root = root, .host_root = "/", .version = VERSION};
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    make_folder();
    remove_tree();
    int rc = mkdir(root, 0755);
    assert(rc == 0);
    for (size_t i = 0; i + 3 <= len && i < (size_t)3 * MAX_STEPS; i += 3)
        take_step(data + i);
    rc = driver_files_find(&where, &f, &e);
    assert((rc < 0) == (e.kind != 0));
    for (size_t i = 0; i < f.n_files; i++)
        check_path(f.files[i].host_path);
    for (size_t i = 0; i < f.n_links; i++)
        check_path(f.links[i].host_path);
    return 0;
}
