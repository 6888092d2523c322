/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/cgroup_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/slots/pod_cgroup.h"

/* The root, and the folders of both drivers' classes below it. */
enum { MAX_WATCHES = 7, EVENT_BYTES = 4096 };

struct cgroup_watch {
    char *root;
    int fd;
    int watches[MAX_WATCHES];
    size_t n;
};

struct cgroup_watch *cgroup_watch_new(const char *root)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) {
        auto_err struct err e = {0};
        (void)err_set_errno(&e, errno, "inotify");
        log_warn("Could not watch for the cgroups of pods: containers with limits start later",
                 kv_err(&e));
        return NULL;
    }
    struct cgroup_watch *w = xmalloc(sizeof(*w));
    *w = (struct cgroup_watch){.root = xstrdup(root), .fd = fd};
    return w;
}

struct cgroup_watch *cgroup_watch_free(struct cgroup_watch *w)
{
    if (!w)
        return NULL;
    (void)close(w->fd);
    free(w->root);
    free(w);
    return NULL;
}

static void watch(struct cgroup_watch *w, const char *folder)
{
    int id = inotify_add_watch(w->fd, folder, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
    if (id >= 0 && w->n < MAX_WATCHES)
        w->watches[w->n++] = id;
}

/* A class's folder may be made with the first pod of it, so the one above is watched, too. */
static void begin(struct cgroup_watch *w)
{
    char **parents = NULL;
    size_t n = 0;
    watch(w, w->root);
    pod_cgroups_parents(w->root, &parents, &n);
    for (size_t i = 0; i < n; i++) {
        watch(w, parents[i]);
        free(parents[i]);
    }
    free(parents);
}

static void end(struct cgroup_watch *w)
{
    while (w->n > 0)
        (void)inotify_rm_watch(w->fd, w->watches[--w->n]);
}

static bool is_there(const struct cgroup_watch *w, const char *uid, struct err *ret_why)
{
    auto_free char *cgroup = NULL;
    return pod_cgroup_find(w->root, uid, &cgroup, ret_why) == 0;
}

/* It may be made between the look and the watch, so there is a second look. */
bool cgroup_watch_has(struct cgroup_watch *w, const char *uid, struct err *ret_why)
{
    if (is_there(w, uid, /* ret_why= */ NULL))
        return true;
    if (w->n == 0)
        begin(w);
    return is_there(w, uid, ret_why);
}

int cgroup_watch_fd(const struct cgroup_watch *w)
{
    return w->fd;
}

/* The watches that end are reported as well, and count as nothing. */
bool cgroup_watch_take(struct cgroup_watch *w)
{
    _Alignas(struct inotify_event) char events[EVENT_BYTES];
    bool made = false;
    ssize_t n;
    while ((n = read(w->fd, events, sizeof(events))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(events + at);
            made |= (event->mask & (IN_CREATE | IN_MOVED_TO | IN_Q_OVERFLOW)) != 0;
            at += (ssize_t)sizeof(*event) + event->len;
        }
    if (made)
        end(w);
    return made;
}
