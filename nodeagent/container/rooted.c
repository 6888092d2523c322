/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/rooted.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

/* The kernel's bound, MAXSYMLINKS. */
#define MAX_LINKS 40

char *rooted_join(const char *root, const char *path)
{
    size_t len = strlen(root);
    while (len > 0 && root[len - 1] == '/')
        len--;
    return xasprintf("%.*s%s", (int)len, root, path);
}

/* A path being resolved: the part done, and the rest. */
struct walk {
    const char *root;
    struct sb done; /* "" or "/a/b" */
    char *rest;     /* owned */
    int at;         /* O_PATH descriptor of root and done; owned */
    int links;
};

static void go_up(struct sb *done)
{
    char *slash = done->len ? strrchr(done->data, '/') : NULL;
    if (!slash)
        return;
    *slash = '\0';
    done->len = (size_t)(slash - done->data);
}

/* Takes the first name off the rest; NULL: the rest is empty. Caller frees. */
static char *next_name(struct walk *w)
{
    const char *at = w->rest + strspn(w->rest, "/");
    size_t len = strcspn(at, "/");
    if (len == 0)
        return NULL;
    char *name = xstrndup(at, len);
    auto_free char *rest = xstrdup(at + len);
    xstr_set(&w->rest, rest);
    return name;
}

/* A writer of the folder controls its sockets and links, whatever their own mode is. */
static int check_hands(const struct walk *w, const char *path, const struct stat *st, struct err *e)
{
    bool by_mode = S_ISDIR(st->st_mode) || S_ISREG(st->st_mode);
    auto_free char *seen = rooted_join(w->root, path);
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return err_set(e, ERR_FORBIDDEN, "%s is not used: it belongs to user %u, not to root", seen,
                       (unsigned)st->st_uid);
    if (by_mode && (st->st_mode & (S_IWGRP | S_IWOTH)))
        return err_set(e, ERR_FORBIDDEN,
                       "%s is not used: its mode %04o lets others than root change it",
                       seen[0] ? seen : "/", (unsigned)st->st_mode & 07777U);
    return 0;
}

/* Puts a path before the rest. */
static int put_before(struct walk *w, const char *more, struct err *e)
{
    auto_free char *rest = xasprintf("%s%s", more, w->rest);
    if (strlen(rest) >= PATH_MAX)
        return err_set(e, ERR_INVALID, "a link below %s leads to a path that is too long", w->root);
    xstr_set(&w->rest, rest);
    return 0;
}

static void move_to(struct walk *w, int fd)
{
    assert(fd < 0 || fd != w->at);
    if (w->at >= 0)
        (void)close(w->at);
    w->at = fd;
}

/* Starts again at the root, with the part done put before the rest. */
static int start_over(struct walk *w, struct err *e)
{
    struct stat st;
    TRY(put_before(w, sb_str(&w->done), e));
    sb_reset(&w->done);
    auto_fd int fd = open(w->root[0] ? w->root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_NOT_FOUND, "%s: %s", w->root, strerror(errno));
    TRY(check_hands(w, "", &st, e));
    move_to(w, TAKE_FD(fd));
    return 0;
}

static int follow(struct walk *w, int link, const char *path, struct err *e)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(link, "", target, sizeof(target) - 1);
    auto_free char *seen = rooted_join(w->root, path);
    if (len < 0)
        return err_set_errno(e, errno, "read link %s", seen);
    target[len] = '\0';
    if (++w->links > MAX_LINKS)
        return err_set(e, ERR_INVALID, "%s leads through more than %d links", seen, MAX_LINKS);
    TRY(put_before(w, target, e));
    if (target[0] != '/')
        return 0;
    sb_reset(&w->done);
    return start_over(w, e);
}

static int step(struct walk *w, const char *name, struct err *e)
{
    assert(w->at >= 0 && !strchr(name, '/') && strcmp(name, "..") != 0);
    struct stat st;
    auto_free char *path = xasprintf("%s/%s", sb_str(&w->done), name);
    auto_fd int fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int saved_errno = errno;
        auto_free char *seen = rooted_join(w->root, path);
        return err_set(e, ERR_NOT_FOUND, "%s: %s", seen, strerror(saved_errno));
    }
    TRY(check_hands(w, path, &st, e));
    if (S_ISLNK(st.st_mode))
        return follow(w, fd, path, e);
    sb_addf(&w->done, "/%s", name);
    TRY(sb_check(&w->done, e));
    move_to(w, TAKE_FD(fd));
    return 0;
}

/* The part done has no links, so the parent folder is the one in its name. */
static int step_up(struct walk *w, struct err *e)
{
    go_up(&w->done);
    return start_over(w, e);
}

static int walk_all(struct walk *w, struct err *e)
{
    TRY(start_over(w, e));
    for (;;) {
        auto_free char *name = next_name(w);
        if (!name)
            return 0;
        if (strcmp(name, "..") == 0)
            TRY(step_up(w, e));
        else if (strcmp(name, ".") != 0)
            TRY(step(w, name, e));
    }
}

static void walk_done(struct walk *w)
{
    sb_done(&w->done);
    xstr_set(&w->rest, NULL);
    move_to(w, -1);
}

int rooted_open(const char *root, const char *path, char **ret, int *ret_fd, struct err *e)
{
    __attribute__((cleanup(walk_done))) struct walk w = {.root = root,
                                                         .done = SB_INIT(PATH_MAX),
                                                         .rest = xstrdup(path),
                                                         .at = -1};
    TRY(walk_all(&w, e));
    assert(w.at >= 0 && (w.done.len == 0 || sb_str(&w.done)[0] == '/'));
    *ret = w.done.len ? sb_take(&w.done) : xstrdup("/");
    *ret_fd = TAKE_FD(w.at);
    return 0;
}

int rooted_resolve(const char *root, const char *path, char **ret, struct err *e)
{
    auto_fd int fd = -1;
    return rooted_open(root, path, ret, &fd, e);
}
