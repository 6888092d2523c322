/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/arbiter/arbiter.h"
#include "nodeagent/container/fresh_folder.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/usage_watch.h"

/* A folder in the making. */
#define DRAFT_PREFIX ".new-"

enum { ROOT_MODE = 0700, FOLDER_MODE = 0755 };

static_assert((int)SLOT_MAX <= (int)ARBITER_MAX_SLOTS, "any slot may take turns");

enum { SHARE_MAX_SEEDS = 64 }; /* a node has fewer cards */

struct share_folders {
    char *root;
    int epoll; /* of the two that follow */
    struct share_sockets *sockets;
    struct arbiter *arbiter;
    struct usage_watch *watch; /* NULL: the kernel gives none */
    /* Held while a folder is made or removed: what is left of one is removed beside another. */
    pthread_mutex_t mu;
    struct seed {
        uint8_t uuid[16];
        uint64_t context_bytes;
    } seeds[SHARE_MAX_SEEDS]; /* what contexts take of each card, as last measured */
    size_t n_seeds;
};

static int follow(int epoll, int fd, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        return err_set_errno(e, errno, "folders of shares");
    return 0;
}

/* Nodes have run out of watches before, and go on without. */
static void open_watch(struct share_folders *f)
{
    auto_err struct err e = {0};
    if (usage_watch_new(&f->watch, &e) < 0)
        log_warn("Could not watch what containers write: one with a limited share can fill the "
                 "folder of shares",
                 kv("folder", f->root), kv_err(&e));
}

static int open_all(struct share_folders *f, struct err *e)
{
    TRY(file_make_dirs(f->root, ROOT_MODE, e));
    if (chmod(f->root, ROOT_MODE) < 0)
        return err_set_errno(e, errno, "set the mode of folder %s", f->root);
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll < 0)
        return err_set_errno(e, errno, "folders of shares");
    TRY(share_sockets_new(&f->sockets, e));
    TRY(follow(f->epoll, share_sockets_fd(f->sockets), e));
    TRY(arbiter_new(clock_real(), &f->arbiter, e));
    TRY(follow(f->epoll, arbiter_fd(f->arbiter), e));
    open_watch(f);
    return 0;
}

int share_folders_new(const char *root, struct share_folders **ret, struct err *e)
{
    auto_share_folders struct share_folders *f = xmalloc(sizeof(*f));
    *f = (struct share_folders){.root = xstrdup(root), .epoll = -1};
    (void)pthread_mutex_init(&f->mu, NULL);
    TRY(open_all(f, e));
    *ret = TAKE(f);
    return 0;
}

struct share_folders *share_folders_free(struct share_folders *f)
{
    if (!f)
        return NULL;
    f->sockets = share_sockets_free(f->sockets);
    f->watch = usage_watch_free(f->watch);
    f->arbiter = arbiter_free(f->arbiter);
    if (f->epoll >= 0)
        (void)close(f->epoll);
    (void)pthread_mutex_destroy(&f->mu);
    free(f->root);
    free(f);
    return NULL;
}

char *share_folders_path(const struct share_folders *f, unsigned slot)
{
    char name[SLOT_WORD_BYTES];
    return xasprintf("%s/%s", f->root, slot_name(slot, name));
}

static int open_folder(const char *path, int *ret, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(e, errno, "open folder %s", path);
    *ret = fd;
    return 0;
}

const char *share_folders_root(const struct share_folders *f)
{
    return f->root;
}

int share_folders_open(const struct share_folders *f, unsigned slot, int *ret, struct err *e)
{
    auto_free char *path = share_folders_path(f, slot);
    return open_folder(path, ret, e);
}

/* --- What contexts take; locked ---
 *
 * A program may take all memory that it sees at its start. Were the measure told only later, it would
 * be over its share by then. */

static struct seed *seed_of(struct share_folders *f, const uint8_t uuid[16])
{
    for (size_t i = 0; i < f->n_seeds; i++)
        if (memcmp(f->seeds[i].uuid, uuid, 16) == 0)
            return &f->seeds[i];
    if (f->n_seeds == SHARE_MAX_SEEDS)
        return NULL;
    struct seed *s = &f->seeds[f->n_seeds++];
    memcpy(s->uuid, uuid, 16);
    return s;
}

static void remember(struct share_folders *f, const struct terms *t)
{
    for (unsigned i = 0; i < t->n_cards && i < REGION_MAX_CARDS; i++) {
        uint64_t bytes = share_terms_context(t, i);
        struct seed *s = bytes != 0 ? seed_of(f, t->cards[i].uuid) : NULL;
        if (s)
            s->context_bytes = bytes;
    }
}

static void seed(struct share_folders *f, struct terms *t)
{
    for (unsigned i = 0; i < t->n_cards; i++) {
        const struct seed *s = seed_of(f, t->cards[i].uuid);
        if (s)
            share_terms_set_context(t, i, s->context_bytes);
    }
}

int share_folders_set_context(struct share_folders *f, unsigned slot, const char *card,
                              uint64_t bytes, struct err *e)
{
    auto_fd int folder = -1;
    auto_terms struct terms *terms = NULL;
    TRY(share_folders_open(f, slot, &folder, e));
    TRY(share_terms_map(folder, &terms, e));
    int at = share_terms_card(terms, card);
    if (at < 0)
        return 0;
    share_terms_set_context(terms, (unsigned)at, bytes);
    HOLD(&f->mu);
    remember(f, terms);
    return 0;
}

/* --- Making --- */

static int arbitrate(struct share_folders *f, unsigned slot, int folder, struct err *e)
{
    struct terms *terms = NULL;
    TRY(share_terms_map(folder, &terms, e));
    remember(f, terms);
    arbiter_put(f->arbiter, slot, terms);
    return 0;
}

/* The folder's usage is cut from now on, its container is heard, and takes turns. */
static int attend(struct share_folders *f, unsigned slot, int folder, struct err *e)
{
    if (f->watch)
        TRY(usage_watch_add(f->watch, slot, folder, e));
    TRY(share_usage_trim(folder, e));
    TRY(share_sockets_open(f->sockets, slot, folder, e));
    return arbitrate(f, slot, folder, e);
}

static int fill(struct share_folders *f, unsigned slot, const char *path, const struct terms *terms,
                struct err *e)
{
    auto_fd int folder = -1;
    TRY(open_folder(path, &folder, e));
    TRY(share_terms_write(folder, terms, e));
    return attend(f, slot, folder, e);
}

static int make(struct share_folders *f, unsigned slot, const struct terms *terms, struct err *e)
{
    char name[SLOT_WORD_BYTES];
    auto_free char *path = share_folders_path(f, slot);
    auto_free char *draft = xasprintf("%s/" DRAFT_PREFIX "%s", f->root, slot_name(slot, name));
    arbiter_drop(f->arbiter, slot);
    TRY(fresh_folder_make(draft, FOLDER_MODE, e));
    TRY(fill(f, slot, draft, terms, e));
    TRY(fresh_folder_remove(path, e));
    if (rename(draft, path) < 0)
        return err_set_errno(e, errno, "put folder %s in its place", path);
    return 0;
}

/* True when the folder is there as a whole, is of these cards, and says these amounts by now. */
static bool is_kept(const char *path, const struct terms *terms)
{
    auto_fd int folder = -1;
    auto_terms struct terms *there = NULL;
    return open_folder(path, &folder, /* e= */ NULL) == 0 &&
           faccessat(folder, REGION_USAGE, F_OK, /* flags= */ 0) == 0 &&
           share_terms_map(folder, &there, /* e= */ NULL) == 0 && share_terms_update(there, terms);
}

/* Of a folder that was made by an earlier agent. */
static int listen_at(struct share_folders *f, unsigned slot, const char *path, struct err *e)
{
    auto_fd int folder = -1;
    TRY(open_folder(path, &folder, e));
    return share_sockets_has(f->sockets, slot) ? arbitrate(f, slot, folder, e)
                                               : attend(f, slot, folder, e);
}

int share_folders_put(struct share_folders *f, unsigned slot, const struct share_limit *limits,
                      size_t n, struct err *e)
{
    struct terms terms;
    assert(slot_is_share(slot) && n > 0);
    TRY(share_terms_of(limits, n, &terms, e));
    auto_free char *path = share_folders_path(f, slot);
    HOLD(&f->mu);
    seed(f, &terms);
    int rc = is_kept(path, &terms) ? listen_at(f, slot, path, e) : make(f, slot, &terms, e);
    return rc < 0 && e ? err_wrap(e, "folder %s", path) : rc;
}

int share_folders_remove(struct share_folders *f, unsigned slot, struct err *e)
{
    auto_free char *path = share_folders_path(f, slot);
    HOLD(&f->mu);
    arbiter_drop(f->arbiter, slot);
    share_sockets_close(f->sockets, slot);
    if (f->watch)
        usage_watch_drop(f->watch, slot);
    return fresh_folder_remove(path, e);
}

bool share_folders_turns(const struct share_folders *f, unsigned slot, unsigned card,
                         struct arbiter_sums *ret)
{
    return arbiter_sums(f->arbiter, slot, card, ret);
}

/* --- What an earlier agent left --- */

static void remove_draft(const struct share_folders *f, const char *name)
{
    auto_err struct err e = {0};
    auto_free char *path = xasprintf("%s/%s", f->root, name);
    if (fresh_folder_remove(path, &e) < 0)
        log_warn("Could not remove the draft of a share's folder", kv("folder", path), kv_err(&e));
}

static void resume(struct share_folders *f, const char *name)
{
    auto_err struct err e = {0};
    auto_free char *path = xasprintf("%s/%s", f->root, name);
    int slot = slot_of_name(name);
    if (slot < 0 || !slot_is_share((unsigned)slot))
        return;
    if (listen_at(f, (unsigned)slot, path, &e) < 0)
        log_error("Could not open the socket of a share", kv("folder", path), kv_err(&e));
}

void share_folders_resume(struct share_folders *f)
{
    auto_dir DIR *dir = opendir(f->root);
    const struct dirent *entry;
    HOLD(&f->mu);
    while (dir && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, DRAFT_PREFIX, strlen(DRAFT_PREFIX)) == 0)
            remove_draft(f, entry->d_name);
        else
            resume(f, entry->d_name);
    }
}

/* --- While containers run --- */

static void trim(struct share_folders *f, unsigned slot)
{
    auto_err struct err e = {0};
    auto_fd int folder = -1;
    auto_free char *path = share_folders_path(f, slot);
    if (open_folder(path, &folder, /* e= */ NULL) == 0 && share_usage_trim(folder, &e) < 0)
        log_error("Could not cut what a container has written", kv("folder", path), kv_err(&e));
}

/* True when somebody has written. */
static bool trim_all(struct share_folders *f)
{
    unsigned slot;
    bool any = false;
    for (; f->watch && usage_watch_next(f->watch, &slot); any = true)
        trim(f, slot);
    return any;
}

/* A container that writes all the time is not worth more than so many rounds. */
enum { PAUSE_MS = 1 };

struct listener {
    struct arbiter *arbiter;
    share_heard_fn *heard;
    void *arg;
};

static void hear(void *arg, unsigned slot, const struct ucred *from, const struct share_message *m)
{
    const struct listener *l = arg;
    arbiter_hear(l->arbiter, slot, from, m);
    l->heard(l->arg, slot, from, m);
}

int share_folders_run(struct share_folders *f, struct scope *s, share_heard_fn *heard, void *arg,
                      struct err *e)
{
    struct listener l = {f->arbiter, heard, arg};
    for (;;) {
        TRY(scope_wait_readable(s, f->epoll, e));
        share_sockets_step(f->sockets, hear, &l);
        arbiter_step(f->arbiter);
    }
}

int share_folders_trim(struct share_folders *f, struct scope *s, struct err *e)
{
    if (!f->watch)
        (void)scope_wait_ms(s, /* ms= */ -1);
    for (;;) {
        TRY(scope_wait_readable(s, usage_watch_fd(f->watch), e));
        if (trim_all(f))
            (void)scope_wait_ms(s, PAUSE_MS);
    }
}
