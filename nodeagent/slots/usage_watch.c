/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/usage_watch.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "limiter/region.h"
#include "nodeagent/container/slot_pool.h"

enum { N_SLOTS = SLOT_SHARES_END - SLOT_SHARES_FIRST, BATCH_BYTES = 4096 };

struct usage_watch {
    int fd;
    /* What was read and not asked for yet; the asking thread's alone. */
    _Alignas(struct inotify_event) char batch[BATCH_BYTES];
    size_t at, len;
    pthread_mutex_t mu;
    int watches[N_SLOTS]; /* -1: none; guarded by mu */
};

static int *place_of(struct usage_watch *w, unsigned slot)
{
    assert(slot_is_share(slot));
    return &w->watches[slot - SLOT_SHARES_FIRST];
}

int usage_watch_new(struct usage_watch **ret, struct err *e)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return err_set_errno(e, errno, "watch files (fs.inotify.max_user_instances)");
    struct usage_watch *w = xmalloc(sizeof(*w));
    w->fd = fd;
    w->at = w->len = 0;
    (void)pthread_mutex_init(&w->mu, NULL);
    for (size_t i = 0; i < N_SLOTS; i++)
        w->watches[i] = -1;
    *ret = w;
    return 0;
}

struct usage_watch *usage_watch_free(struct usage_watch *w)
{
    if (!w)
        return NULL;
    (void)close(w->fd);
    (void)pthread_mutex_destroy(&w->mu);
    free(w);
    return NULL;
}

static void drop(struct usage_watch *w, int *place)
{
    if (*place >= 0)
        (void)inotify_rm_watch(w->fd, *place);
    *place = -1;
}

int usage_watch_add(struct usage_watch *w, unsigned slot, int folder, struct err *e)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/" REGION_USAGE, folder);
    HOLD(&w->mu);
    drop(w, place_of(w, slot));
    int watch = inotify_add_watch(w->fd, path, IN_MODIFY | IN_DONT_FOLLOW);
    if (watch < 0)
        return err_set_errno(e, errno, "watch %s", REGION_USAGE);
    *place_of(w, slot) = watch;
    return 0;
}

void usage_watch_drop(struct usage_watch *w, unsigned slot)
{
    HOLD(&w->mu);
    drop(w, place_of(w, slot));
}

int usage_watch_fd(const struct usage_watch *w)
{
    return w->fd;
}

static bool find_slot(struct usage_watch *w, int watch, unsigned *ret)
{
    HOLD(&w->mu);
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (w->watches[i] == watch) {
            *ret = SLOT_SHARES_FIRST + i;
            return true;
        }
    return false;
}

/* The next event of what was read, or of what can be read now; NULL: there is none. */
static const struct inotify_event *next_event(struct usage_watch *w)
{
    if (w->at == w->len) {
        ssize_t n = read(w->fd, w->batch, sizeof(w->batch));
        w->at = 0;
        w->len = n > 0 ? (size_t)n : 0;
    }
    if (w->at == w->len)
        return NULL;
    const struct inotify_event *ev = (const void *)&w->batch[w->at];
    w->at += sizeof(*ev) + ev->len;
    assert(w->at <= w->len); /* the kernel gives whole events */
    return ev;
}

bool usage_watch_next(struct usage_watch *w, unsigned *ret_slot)
{
    const struct inotify_event *ev;
    while ((ev = next_event(w)) != NULL)
        if (ev->mask & IN_MODIFY && find_slot(w, ev->wd, ret_slot))
            return true;
    return false;
}
