/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/rng.h"
#include "base/sb.h"
#include "base/xalloc.h"

#define READ_BYTES ((size_t)16 * 1024)
/* The suffix that file_write_atomic adds to a name: ".<16 hex digits>.tmp". */
#define TMP_DIGITS 16
#define TMP_TAIL   (1 + TMP_DIGITS + sizeof(".tmp") - 1)

const char *file_title(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static int open_to_read(const char *path, int *ret_fd, struct err *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "%s does not exist", path);
    if (fd < 0)
        return err_set_errno(e, errno, "open %s", path);
    *ret_fd = fd;
    return 0;
}

/* A signal may interrupt a read: on a network or FUSE file system also that of a file. */
static ssize_t read_some(int fd, char *buf, size_t size)
{
    for (;;) {
        ssize_t n = read(fd, buf, size);
        if (n >= 0 || errno != EINTR)
            return n;
    }
}

/* Reads to the end; the size is not used, because files below /proc have none. */
static int read_all(int fd, const char *path, struct sb *text, struct err *e)
{
    auto_free char *chunk = xmalloc(READ_BYTES);
    for (;;) {
        ssize_t n = read_some(fd, chunk, READ_BYTES);
        if (n < 0)
            return err_set_errno(e, errno, "read %s", path);
        if (n == 0)
            return 0;
        sb_add_mem(text, chunk, (size_t)n);
        if (text->overflow)
            return err_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, text->cap);
    }
}

int file_read_fd(int fd, const char *name, size_t max_bytes, char **ret, size_t *ret_len,
                 struct err *e)
{
    auto_sb struct sb text = SB_INIT(max_bytes);
    TRY(read_all(fd, name, &text, e));
    if (ret_len)
        *ret_len = text.len;
    *ret = sb_take(&text);
    return 0;
}

int file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len, struct err *e)
{
    auto_fd int fd = -1;
    TRY(open_to_read(path, &fd, e));
    return file_read_fd(fd, file_title(path), max_bytes, ret, ret_len, e);
}

int file_read_head(const char *path, char *ret, size_t size, struct err *e)
{
    auto_fd int fd = -1;
    size_t len = 0;
    ssize_t n = 1;
    assert(size > 0);
    TRY(open_to_read(path, &fd, e));
    for (; n > 0 && len < size - 1; len += (size_t)n) {
        n = read_some(fd, ret + len, size - 1 - len);
        if (n < 0)
            return err_set_errno(e, errno, "read %s", path);
    }
    ret[len] = '\0';
    return 0;
}

/* The folder that a path lies in. Caller frees. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* Makes a rename or removal in the folder of path durable. */
static int sync_parent(const char *path, struct err *e)
{
    auto_free char *folder = parent_of(path);
    auto_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_set_errno(e, errno, "fsync %s", folder);
    return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* Errors name the final file, not the temporary one, so that each retry reports the same
 * message. */
static int write_new(const char *fresh, const char *path, const char *data, size_t len,
                     unsigned mode, bool durably, struct err *e)
{
    auto_fd int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return err_set_errno(e, errno, "create %s", path);
    if (write_all(fd, data, len) < 0 || (durably && fsync(fd) < 0))
        return err_set_errno(e, errno, "write %s", path);
    if (close(TAKE_FD(fd)) < 0)
        return err_set_errno(e, errno, "close %s", path);
    return 0;
}

static int replace_file(const char *path, const char *data, size_t len, unsigned mode, bool durably,
                        struct err *e)
{
    struct rng rng;
    rng_init_random(&rng);
    auto_free char *fresh = xasprintf("%s.%016" PRIx64 ".tmp", path, rng_next(&rng));
    int rc = write_new(fresh, path, data, len, mode, durably, e);
    if (rc == 0 && rename(fresh, path) < 0)
        rc = err_set_errno(e, errno, "replace %s", path);
    if (rc < 0) {
        (void)unlink(fresh);
        return rc;
    }
    return durably ? sync_parent(path, e) : 0;
}

int file_write_atomic(const char *path, const char *data, size_t len, unsigned mode, struct err *e)
{
    return replace_file(path, data, len, mode, /* durably= */ true, e);
}

int file_replace(const char *path, const char *data, size_t len, unsigned mode, struct err *e)
{
    return replace_file(path, data, len, mode, /* durably= */ false, e);
}

/* True for "<something><suffix>.<16 hex digits>.tmp", file_write_atomic's temporary names. */
static bool is_temporary(const char *name, const char *suffix)
{
    size_t len = strlen(name);
    size_t tail = strlen(suffix) + TMP_TAIL;
    if (len <= tail)
        return false;
    const char *at = name + len - tail;
    if (strncmp(at, suffix, strlen(suffix)) != 0)
        return false;
    at += strlen(suffix);
    return *at == '.' && strspn(at + 1, "0123456789abcdef") == TMP_DIGITS &&
           strcmp(at + 1 + TMP_DIGITS, ".tmp") == 0;
}

int file_sweep(const char *folder, const char *suffix, size_t *ret_n, struct err *e)
{
    auto_dir DIR *dir = opendir(folder);
    if (!dir && errno != ENOENT)
        return err_set_errno(e, errno, "read %s", folder);
    int rc = 0;
    size_t n = 0;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        if (!is_temporary(entry->d_name, suffix))
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            n++;
        else if (rc == 0)
            rc = err_set_errno(e, errno, "remove %s/%s", folder, entry->d_name);
    }
    if (ret_n)
        *ret_n = n;
    return rc;
}

/* A read-only file system refuses before it checks whether the file exists. */
static bool is_absent(const char *path)
{
    struct stat st;
    return lstat(path, &st) < 0 && errno == ENOENT;
}

int file_remove(const char *path, struct err *e)
{
    if (unlink(path) == 0)
        return sync_parent(path, e);
    int failed = errno;
    return is_absent(path) ? 0 : err_set_errno(e, failed, "remove %s", path);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int make_dir(const char *path, unsigned mode, struct err *e)
{
    if (mkdir(path, mode) == 0 || (errno == EEXIST && is_folder(path)))
        return 0;
    return err_set_errno(e, errno, "create folder %s", path);
}

int file_make_dirs(const char *path, unsigned mode, struct err *e)
{
    auto_free char *part = xstrdup(path);
    for (char *c = part + 1; part[0] && *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        TRY(make_dir(part, mode, e));
        *c = '/';
    }
    return make_dir(part, mode, e);
}
