/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/rooted.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

/* As the kernel: MAXSYMLINKS. */
#define MAX_LINKS 40

char *rooted_join(const char *root, const char *path)
{
    size_t len = strlen(root);
    while (len > 0 && root[len - 1] == '/')
        len--;
    return xasprintf("%.*s%s", (int)len, root, path);
}

/* The walk so far, and what is still to be walked. */
struct walk {
    const char *root;
    struct sb done; /* "" or "/a/b" */
    char *rest;     /* owned */
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

/* Takes the first name off the rest; NULL when nothing is left. Caller frees. */
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

static int follow(struct walk *w, const char *seen, struct err *e)
{
    char target[PATH_MAX];
    ssize_t len = readlink(seen, target, sizeof(target) - 1);
    if (len < 0)
        return err_set_errno(e, errno, "read link %s", seen);
    target[len] = '\0';
    if (++w->links > MAX_LINKS)
        return err_set(e, ERR_INVALID, "%s leads through more than %d links", seen, MAX_LINKS);
    if (target[0] == '/')
        sb_reset(&w->done);
    else
        go_up(&w->done);
    auto_free char *rest = xasprintf("%s%s", target, w->rest);
    if (strlen(rest) >= PATH_MAX)
        return err_set(e, ERR_INVALID, "%s leads to a path that is too long", seen);
    xstr_set(&w->rest, rest);
    return 0;
}

static int step(struct walk *w, const char *name, struct err *e)
{
    struct stat st;
    if (strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0) {
        go_up(&w->done);
        return 0;
    }
    sb_addf(&w->done, "/%s", name);
    TRY(sb_check(&w->done, e));
    auto_free char *seen = rooted_join(w->root, sb_str(&w->done));
    if (lstat(seen, &st) < 0)
        return err_set(e, ERR_NOT_FOUND, "%s: %s", seen, strerror(errno));
    return S_ISLNK(st.st_mode) ? follow(w, seen, e) : 0;
}

static int walk_all(struct walk *w, struct err *e)
{
    for (;;) {
        auto_free char *name = next_name(w);
        if (!name)
            return 0;
        TRY(step(w, name, e));
    }
}

static void walk_done(struct walk *w)
{
    sb_done(&w->done);
    xstr_set(&w->rest, NULL);
}

int rooted_resolve(const char *root, const char *path, char **ret, struct err *e)
{
    __attribute__((cleanup(walk_done))) struct walk w = {.root = root,
                                                         .done = SB_INIT(PATH_MAX),
                                                         .rest = xstrdup(path)};
    TRY(walk_all(&w, e));
    *ret = w.done.len ? sb_take(&w.done) : xstrdup("/");
    return 0;
}
