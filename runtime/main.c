/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "runtime/bundle.h"
#include "runtime/runtime_args.h"

/*
 * cleave-runtime: an OCI runtime that is runc, with what CDI does for the devices that Cleave
 * grants. For container runtimes without CDI: containerd before 1.7, and Docker (docs/adr/0038).
 *
 * It is started as runc is, with the same arguments. Where the command makes a container with our
 * marks, it changes the bundle's config.json first. Then it becomes runc, in each case.
 */

#define CDI_FOLDER   "/var/run/cdi" /* where the agent writes, and CDI's own folder */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define RUNC         "runc"

/* The shims look for the last line of level "error" in the log, and show it in the pod's Event. */
static void log_error(const struct runtime_args *args, const char *message)
{
    auto_fd int fd = open(args->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    auto_json json_t *line = json_pack("{s:s, s:s}", "level", "error", "msg", message);
    if (fd < 0 || !line)
        return;
    auto_free char *text = args->log_is_json ? json_dumps(line, JSON_COMPACT)
                                             : xasprintf("level=error msg=\"%s\"", message);
    if (text)
        (void)dprintf(fd, "%s\n", text);
}

static int fail(const struct runtime_args *args, const struct err *e)
{
    auto_free char *message = xasprintf("cleave-runtime: %s", err_msg(e));
    (void)fprintf(stderr, "%s\n", message);
    if (args->log)
        log_error(args, message);
    return 1;
}

static bool is_me(const struct stat *st)
{
    struct stat me;
    return stat("/proc/self/exe", &me) == 0 && me.st_dev == st->st_dev && me.st_ino == st->st_ino;
}

/* runc may be a link to this program. */
static bool can_run(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && !is_me(&st) && access(path, X_OK) == 0;
}

/* The PATH is that of containerd or dockerd, where they look for runc themselves. */
static char *find_runc(const char *folders)
{
    while (*folders) {
        size_t len = strcspn(folders, ":");
        auto_free char *path = xasprintf("%.*s/%s", (int)len, folders, RUNC);
        if (len > 0 && can_run(path))
            return TAKE(path);
        folders += len + (folders[len] == ':');
    }
    return NULL;
}

static int become_runc(char **argv, struct err *e)
{
    const char *folders = getenv("PATH");
    folders = folders && *folders ? folders : DEFAULT_PATH;
    auto_free char *path = find_runc(folders);
    if (!path)
        return err_set(e, ERR_NOT_FOUND, "there is no runc in %s: install it there", folders);
    argv[0] = path;
    (void)execv(path, argv);
    return err_set_errno(e, errno, "run %s", path);
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    struct runtime_args args;
    json_set_alloc_funcs(xmalloc, free);
    if (argc < 1)
        return 1;
    runtime_args_read(argc, argv, &args);
    if (args.bundle && bundle_bring(args.bundle, CDI_FOLDER, &e) < 0)
        return fail(&args, &e);
    return become_runc(argv, &e) < 0 ? fail(&args, &e) : 0;
}
