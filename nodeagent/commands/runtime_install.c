/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/runtime_install.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

enum { PROGRAM_BYTES = 16 << 20, PROGRAM_MODE = 0755 };

int runtime_beside_us(const char *program, char **ret, struct err *e)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    const char *slash = n > 0 ? memrchr(own, '/', (size_t)n) : NULL;
    if (!slash)
        return err_set_errno(e, errno, "our own program");
    *ret = xasprintf("%.*s/%s", (int)(slash - own), own, program);
    return 0;
}

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* The folder must be root's alone: who may change it decides which program root runs. */
static int check_folder(const char *folder, struct err *e)
{
    struct stat st;
    if (stat(folder, &st) < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "folder %s does not exist", folder)
                               : err_set_errno(e, errno, "folder %s", folder);
    if (!S_ISDIR(st.st_mode))
        return err_set_errno(e, ENOTDIR, "folder %s", folder);
    if (!is_ours(&st) || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return err_set(e, ERR_INVALID,
                       "folder %s, of user %u and mode 0%03o, lets others than root change it, and "
                       "root would run what they put there",
                       folder, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777U);
    return 0;
}

/* A pipe is not waited for (O_NONBLOCK). *ret_fd -1: the name is not a file's. */
static bool open_file(const char *path, struct stat *ret, int *ret_fd)
{
    auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
        return false;
    *ret_fd = TAKE_FD(fd);
    return true;
}

static bool is_there(const char *path, const char *text, size_t len)
{
    struct stat st;
    auto_fd int fd = -1;
    auto_free char *old = NULL;
    size_t old_len = 0;
    return open_file(path, &st, &fd) && (st.st_mode & 07777U) == PROGRAM_MODE && is_ours(&st) &&
           (size_t)st.st_size == len &&
           file_read_fd(fd, path, PROGRAM_BYTES, &old, &old_len, /* e= */ NULL) == 0 &&
           old_len == len && memcmp(old, text, len) == 0;
}

/* A file that is made has what the umask leaves of its mode. */
static int set_mode(const char *path, struct err *e)
{
    struct stat st;
    auto_fd int fd = -1;
    if (!open_file(path, &st, &fd))
        return err_set_errno(e, errno, "open %s", path);
    if ((st.st_mode & 07777U) != PROGRAM_MODE && fchmod(fd, PROGRAM_MODE) < 0)
        return err_set_errno(e, errno, "chmod %s", path);
    return 0;
}

int runtime_install(const char *program, const char *folder, struct err *e)
{
    auto_free char *text = NULL;
    size_t len = 0;
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    assert(strlen(name) > 1);
    auto_free char *to = xasprintf("%s/%s", folder, name);
    TRY(file_read(program, PROGRAM_BYTES, &text, &len, e));
    TRY(check_folder(folder, e));
    /* Copies that killed agents left; file_sweep takes a suffix that is shorter than the name. */
    (void)!file_sweep(folder, name + 1, /* ret_n= */ NULL, /* e= */ NULL);
    if (is_there(to, text, len))
        return 0;
    TRY(file_write_atomic(to, text, len, PROGRAM_MODE, e));
    return set_mode(to, e);
}
