/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/fresh_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/xalloc.h"

#define OLD_PREFIX ".old-"
/* A container makes as many files, and folders in folders, as it likes. */
#define MAX_REMOVALS 4096
#define MAX_DEPTH    32

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void remove_entry(int at, const char *name, int depth, unsigned *left);

/* What is in it, as far as it goes. */
static void empty(int at, const char *name, int depth, unsigned *left)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    auto_dir DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return;
    }
    const struct dirent *entry;
    while (*left && (entry = readdir(dir)) != NULL) {
        if (!is_dots(entry->d_name))
            remove_entry(dirfd(dir), entry->d_name, depth + 1, left);
    }
}

static void remove_entry(int at, const char *name, int depth, unsigned *left)
{
    if (!*left || depth > MAX_DEPTH)
        return;
    --*left;
    if (unlinkat(at, name, 0) == 0)
        return;
    empty(at, name, depth, left);
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

static void sweep(int parent)
{
    unsigned left = MAX_REMOVALS;
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, OLD_PREFIX, strlen(OLD_PREFIX)) == 0)
            remove_entry(parent, entry->d_name, 0, &left);
    }
    if (!left)
        log_warn("Containers left more files than are removed at once",
                 kv_int("removed", MAX_REMOVALS));
}

static int move_aside(int parent, const char *name, const char *path, struct err *e)
{
    struct rng rng;
    rng_init_random(&rng);
    auto_free char *old = xasprintf(OLD_PREFIX "%016" PRIx64, rng_next(&rng));
    if (renameat(parent, name, parent, old) < 0 && errno != ENOENT)
        return err_set_errno(e, errno, "move %s aside", path);
    return 0;
}

static int open_parent(const char *path, int *ret_fd, struct err *e)
{
    const char *slash = strrchr(path, '/');
    assert(slash && slash[1]);
    auto_free char *parent = slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
    TRY(file_make_dirs(parent, 0755, e));
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(e, errno, "open folder %s", parent);
    *ret_fd = fd;
    return 0;
}

int fresh_folder_make(const char *path, unsigned mode, struct err *e)
{
    auto_fd int parent = -1;
    TRY(open_parent(path, &parent, e));
    const char *name = strrchr(path, '/') + 1;
    TRY(move_aside(parent, name, path, e));
    sweep(parent);
    if (mkdirat(parent, name, 0700) < 0)
        return err_set_errno(e, errno, "create folder %s", path);
    /* The mode of mkdir is cut by the umask. */
    auto_fd int made = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0 || fchmod(made, mode) < 0)
        return err_set_errno(e, errno, "set the mode of folder %s", path);
    return 0;
}
