/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/fresh_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/xalloc.h"

#define OLD_PREFIX ".old-"
/* Bound on removals, because a container can make any number of files and nested folders. */
#define MAX_REMOVALS 4096
#define MAX_DEPTH    32

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

struct sweep {
    int parent;     /* the new folder's parent */
    unsigned left;  /* entries that may still be removed or moved */
    bool is_longer; /* an entry was moved into parent: another round is needed */
    bool is_stuck;  /* an entry could not be removed */
};

static char *old_name(void)
{
    struct rng rng;
    rng_init_random(&rng);
    return xasprintf(OLD_PREFIX "%016" PRIx64, rng_next(&rng));
}

static void remove_entry(struct sweep *s, int at, const char *name, int depth);

/* Gives the owner all rights to a folder: a container may have taken them away, and the agent has
 * no capability to pass over them. What is no folder of ours stays as it is. */
static void unlock_dir(int at, const char *name)
{
    char link[64];
    auto_fd int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    (void)chmod(link, 0700);
}

/* NULL: it cannot be listed. */
static DIR *open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir)
        (void)close(fd);
    return dir;
}

/* Empties a folder as far as the bound allows. */
static void empty(struct sweep *s, int at, const char *name, int depth)
{
    unlock_dir(at, name);
    auto_dir DIR *dir = open_dir(at, name);
    const struct dirent *entry;
    while (dir && s->left && (entry = readdir(dir)) != NULL) {
        if (!is_dots(entry->d_name))
            remove_entry(s, dirfd(dir), entry->d_name, depth + 1);
    }
}

/* Moves a folder that is too deep for this round beside the new folder, so that those above it can
 * be removed; the next round takes it. */
static void move_up(struct sweep *s, int at, const char *name)
{
    auto_free char *old = old_name();
    unlock_dir(at, name); /* to move a folder is to write its ".." */
    if (renameat(at, name, s->parent, old) == 0)
        s->is_longer = true;
    else
        s->is_stuck = true;
}

static void remove_entry(struct sweep *s, int at, const char *name, int depth)
{
    if (!s->left)
        return;
    s->left--;
    if (unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0)
        return;
    if (depth >= MAX_DEPTH) {
        move_up(s, at, name);
        return;
    }
    empty(s, at, name, depth);
    if (unlinkat(at, name, AT_REMOVEDIR) < 0 && s->left && !s->is_longer)
        s->is_stuck = true;
}

static void sweep_once(struct sweep *s)
{
    auto_dir DIR *dir = open_dir(s->parent, ".");
    const struct dirent *entry;
    while (dir && s->left && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, OLD_PREFIX, strlen(OLD_PREFIX)) == 0)
            remove_entry(s, s->parent, entry->d_name, 0);
    }
}

/* path is the new folder in parent. */
static void sweep_old(int parent, const char *path)
{
    struct sweep s = {.parent = parent, .left = MAX_REMOVALS, .is_longer = true};
    while (s.left && s.is_longer) {
        s.is_longer = false;
        sweep_once(&s);
    }
    if (!s.left)
        log_warn("Removed only a part of what containers left beside a folder", kv("folder", path),
                 kv_int("removed", MAX_REMOVALS),
                 kv("next", "each time the folder is made anew, as many more are removed"));
    else if (s.is_stuck)
        log_warn("Could not remove all that containers left beside a folder: a user of a container "
                 "owns some of it",
                 kv("folder", path), kv("names", OLD_PREFIX "*"));
}

static int move_aside(int parent, const char *name, const char *path, struct err *e)
{
    auto_free char *old = old_name();
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

/* Opens the parent folder, in which the name is free then. */
static int clear_name(const char *path, int *ret_parent, struct err *e)
{
    auto_fd int parent = -1;
    TRY(open_parent(path, &parent, e));
    TRY(move_aside(parent, strrchr(path, '/') + 1, path, e));
    sweep_old(parent, path);
    *ret_parent = TAKE_FD(parent);
    return 0;
}

int fresh_folder_remove(const char *path, struct err *e)
{
    auto_fd int parent = -1;
    return clear_name(path, &parent, e);
}

int fresh_folder_make(const char *path, unsigned mode, struct err *e)
{
    auto_fd int parent = -1;
    const char *name = strrchr(path, '/') + 1;
    TRY(clear_name(path, &parent, e));
    if (mkdirat(parent, name, 0700) < 0)
        return err_set_errno(e, errno, "create folder %s", path);
    /* The umask cuts the mode of mkdir. */
    auto_fd int made = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0 || fchmod(made, mode) < 0)
        return err_set_errno(e, errno, "set the mode of folder %s", path);
    return 0;
}
