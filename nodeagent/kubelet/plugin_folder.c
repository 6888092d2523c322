/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/plugin_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#define KUBELET_SOCKET "kubelet.sock"

enum { FOLDER_RETRY_MS = 1000 };

/* Identifies the kubelet's socket, or none. An inode may be reused, but with another time. */
struct socket_mark {
    dev_t dev;
    ino_t ino;
    struct timespec changed;
    bool there;
};

struct plugin_folder {
    struct reactor *reactor;
    char *dir;
    const struct plugin_folder_ops *ops;
    void *arg;
    int notify; /* inotify; -1: none */
    int folder; /* the folder's watch; -1: the folder is missing */
    struct reactor_watch *watch;
    struct reactor_timer *timer;
    struct socket_mark mark;
};

char *plugin_folder_path(const char *dir, const char *name)
{
    return xasprintf("%s/%s", dir, name ? name : KUBELET_SOCKET);
}

static struct socket_mark kubelet_socket(const struct plugin_folder *f)
{
    auto_free char *path = plugin_folder_path(f->dir, /* name= */ NULL);
    struct stat st;
    if (stat(path, &st) < 0)
        return (struct socket_mark){0};
    return (struct socket_mark){st.st_dev, st.st_ino, st.st_ctim, /* there= */ true};
}

static bool same_mark(const struct socket_mark *a, const struct socket_mark *b)
{
    return a->there == b->there && a->dev == b->dev && a->ino == b->ino &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

void plugin_folder_look(struct plugin_folder *f)
{
    struct socket_mark now = kubelet_socket(f);
    bool same = same_mark(&now, &f->mark);
    bool same_inode =
        now.there && f->mark.there && now.dev == f->mark.dev && now.ino == f->mark.ino;
    f->mark = now;
    if (!same && now.there)
        f->ops->came(f->arg, same_inode);
}

static void watch_folder(void *arg)
{
    struct plugin_folder *f = arg;
    assert(f->notify >= 0 && f->folder < 0);
    f->folder = inotify_add_watch(f->notify, f->dir,
                                  IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |
                                      IN_MOVE_SELF | IN_ONLYDIR);
    if (f->folder < 0)
        reactor_timer_set(f->timer, FOLDER_RETRY_MS);
    plugin_folder_look(f);
}

static bool is_plugin_socket(const struct inotify_event *event)
{
    static const char end[] = ".sock";
    size_t len = event->len ? strlen(event->name) : 0;
    return event->mask & (IN_CREATE | IN_DELETE) && len >= sizeof(end) &&
           strcmp(event->name + len - strlen(end), end) == 0 &&
           strcmp(event->name, KUBELET_SOCKET) != 0;
}

static void folder_changed(void *arg, uint32_t events)
{
    (void)events;
    struct plugin_folder *f = arg;
    alignas(struct inotify_event) char buf[4096];
    bool gone = false, others = false;
    ssize_t got;
    while ((got = read(f->notify, buf, sizeof(buf))) > 0) {
        for (char *at = buf; at < buf + got;) {
            const struct inotify_event *event = (const void *)at;
            /* Events of a watch that was removed already are outdated. */
            gone |= event->wd == f->folder &&
                    event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED);
            others |= is_plugin_socket(event);
            at += sizeof(*event) + event->len;
        }
    }
    if (gone && f->folder >= 0) {
        (void)inotify_rm_watch(f->notify, f->folder);
        f->folder = -1;
        reactor_timer_set(f->timer, 0);
    }
    plugin_folder_look(f);
    if (others)
        f->ops->others(f->arg);
}

static bool is_served(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return true;
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    bool refused = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
                   errno == ECONNREFUSED;
    (void)close(fd);
    return !refused;
}

void plugin_folder_sweep(const char *dir, const char *prefix)
{
    auto_dir DIR *d = opendir(dir);
    if (!d)
        return;
    const struct dirent *entry;
    while ((entry = readdir(d))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        auto_free char *path = plugin_folder_path(dir, entry->d_name);
        if (!is_served(path))
            (void)unlink(path);
    }
}

static int begin_watch(struct plugin_folder *f, struct err *e)
{
    f->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (f->notify < 0)
        return err_set_errno(e, errno, "cannot watch %s%s", f->dir,
                             errno == EMFILE
                                 ? " (the sysctl fs.inotify.max_user_instances is too low)"
                                 : "");
    TRY(reactor_watch(f->reactor, f->notify, EPOLLIN, folder_changed, f, &f->watch, e));
    f->timer = reactor_timer_new(f->reactor, watch_folder, f);
    watch_folder(f);
    return 0;
}

int plugin_folder_new(struct reactor *reactor, const char *dir, const struct plugin_folder_ops *ops,
                      void *arg, struct plugin_folder **ret, struct err *e)
{
    assert(dir && ops->came && ops->others);
    auto_plugin_folder struct plugin_folder *f = xmalloc(sizeof(*f));
    *f = (struct plugin_folder){.reactor = reactor,
                                .dir = xstrdup(dir),
                                .ops = ops,
                                .arg = arg,
                                .notify = -1,
                                .folder = -1};
    TRY(begin_watch(f, e));
    *ret = TAKE(f);
    return 0;
}

bool plugin_folder_has_kubelet(const struct plugin_folder *f)
{
    return f->mark.there;
}

struct plugin_folder *plugin_folder_free(struct plugin_folder *f)
{
    if (!f)
        return NULL;
    (void)reactor_timer_free(f->timer);
    (void)reactor_unwatch(f->watch);
    if (f->notify >= 0)
        (void)close(f->notify);
    free(f->dir);
    free(f);
    return NULL;
}
