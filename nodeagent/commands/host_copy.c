/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/host_copy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

enum { FILE_BYTES = 16 << 20 };

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* The folder must be root's alone: who may change it decides what is run. */
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

static bool is_there(const char *path, const char *text, size_t len, unsigned mode)
{
    struct stat st;
    auto_fd int fd = -1;
    auto_free char *old = NULL;
    size_t old_len = 0;
    return open_file(path, &st, &fd) && (st.st_mode & 07777U) == mode && is_ours(&st) &&
           (size_t)st.st_size == len &&
           file_read_fd(fd, path, FILE_BYTES, &old, &old_len, /* e= */ NULL) == 0 &&
           old_len == len && memcmp(old, text, len) == 0;
}

/* A file that is made has what the umask leaves of its mode. */
static int set_mode(const char *path, unsigned mode, struct err *e)
{
    struct stat st;
    auto_fd int fd = -1;
    if (!open_file(path, &st, &fd))
        return err_set_errno(e, errno, "open %s", path);
    if ((st.st_mode & 07777U) != mode && fchmod(fd, mode) < 0)
        return err_set_errno(e, errno, "chmod %s", path);
    return 0;
}

int host_copy(const char *file, const char *folder, unsigned mode, struct err *e)
{
    auto_free char *text = NULL;
    size_t len = 0;
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    assert(strlen(name) > 1);
    auto_free char *to = xasprintf("%s/%s", folder, name);
    TRY(file_read(file, FILE_BYTES, &text, &len, e));
    TRY(check_folder(folder, e));
    /* Copies that killed agents left; file_sweep takes a suffix that is shorter than the name. */
    (void)!file_sweep(folder, name + 1, /* ret_n= */ NULL, /* e= */ NULL);
    if (is_there(to, text, len, mode))
        return 0;
    TRY(file_write_atomic(to, text, len, mode, e));
    return set_mode(to, mode, e);
}
