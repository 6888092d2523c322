/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_sockets.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"

#define DRAFT ".agent-new"

enum {
    N_SLOTS = SLOT_SHARES_END - SLOT_SHARES_FIRST,
    BATCH = 16, /* messages of one container before it is the next one's turn */
    MODE = 0666,
    /* Of one container in a window. Two of each process for each turn come to a tenth of that. */
    WINDOW_MS = 100,
    MOST = 500,
};

/* What the epoll's data say, besides slots. */
#define OF_TIMER UINT32_MAX

struct share_sockets {
    int epoll; /* its data are slots */
    pthread_mutex_t mu;
    int fds[N_SLOTS]; /* -1: none; guarded by mu */
    int timer;        /* set while a window is open */
    bool is_open;
    unsigned heard[N_SLOTS]; /* in this window; for the thread that receives, as is_open */
};

static int *place_of(struct share_sockets *s, unsigned slot)
{
    assert(slot_is_share(slot));
    return &s->fds[slot - SLOT_SHARES_FIRST];
}

int share_sockets_new(struct share_sockets **ret, struct err *e)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return err_set_errno(e, errno, "sockets of shares");
    struct share_sockets *s = xcalloc(1, sizeof(*s));
    s->epoll = epoll;
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    (void)pthread_mutex_init(&s->mu, NULL);
    for (size_t i = 0; i < N_SLOTS; i++)
        s->fds[i] = -1;
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = OF_TIMER};
    if (s->timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, s->timer, &ev) < 0) {
        int rc = err_set_errno(e, errno, "sockets of shares");
        share_sockets_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

struct share_sockets *share_sockets_free(struct share_sockets *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < N_SLOTS; i++)
        if (s->fds[i] >= 0)
            (void)close(s->fds[i]);
    if (s->timer >= 0)
        (void)close(s->timer);
    (void)close(s->epoll);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}

/* --- Opening --- */

/* A socket's path has at most 107 characters, and that of a folder may have more. */
static int bind_in(int fd, int folder, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/" DRAFT, folder);
    assert(n > 0 && (size_t)n < sizeof(at.sun_path));
    if (unlinkat(folder, DRAFT, 0) < 0 && errno != ENOENT)
        return err_set_errno(e, errno, "remove %s", DRAFT);
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
        fchmodat(folder, DRAFT, MODE, /* flags= */ 0) < 0 ||
        renameat(folder, DRAFT, folder, REGION_AGENT) < 0)
        return err_set_errno(e, errno, "make the socket %s", REGION_AGENT);
    return 0;
}

static int make_socket(int folder, int *ret, struct err *e)
{
    static const int on = 1;
    auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return err_set_errno(e, errno, "make the socket %s", REGION_AGENT);
    TRY(bind_in(fd, folder, e));
    *ret = TAKE_FD(fd);
    return 0;
}

int share_sockets_open(struct share_sockets *s, unsigned slot, int folder, struct err *e)
{
    auto_fd int fd = -1;
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = slot};
    TRY(make_socket(folder, &fd, e));
    HOLD(&s->mu);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        return err_set_errno(e, errno, "listen at the socket %s", REGION_AGENT);
    int *place = place_of(s, slot);
    if (*place >= 0)
        (void)close(*place);
    *place = TAKE_FD(fd);
    return 0;
}

bool share_sockets_has(struct share_sockets *s, unsigned slot)
{
    HOLD(&s->mu);
    return *place_of(s, slot) >= 0;
}

void share_sockets_close(struct share_sockets *s, unsigned slot)
{
    HOLD(&s->mu);
    int *place = place_of(s, slot);
    if (*place >= 0)
        (void)close(TAKE_FD(*place));
}

/* --- Receiving --- */

static bool take_sender(struct msghdr *m, struct ucred *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(ret, CMSG_DATA(c), sizeof(*ret));
        return true;
    }
    return false;
}

/* Messages of one container, as one call receives them. */
struct batch {
    struct share_message messages[BATCH];
    struct ucred from[BATCH];
    bool are_good[BATCH]; /* false: it is no message of this layout */
};

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct ucred))];
};

/* Receives messages of one container, up to `most`, with one call, since each turn on a card needs
 * one. Descriptors that a sender adds find no room, and the kernel closes them. Returns how many
 * messages there are. */
static unsigned receive(struct share_sockets *s, unsigned slot, unsigned most, struct batch *ret)
{
    union control controls[BATCH];
    struct iovec parts[BATCH];
    struct mmsghdr m[BATCH];
    for (unsigned i = 0; i < most; i++) {
        parts[i] = (struct iovec){&ret->messages[i], sizeof(ret->messages[i])};
        m[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i],
                                       .msg_iovlen = 1,
                                       .msg_control = controls[i].bytes,
                                       .msg_controllen = sizeof(controls[i].bytes)};
    }
    HOLD(&s->mu);
    int fd = *place_of(s, slot);
    int n = fd < 0 ? -1 : recvmmsg(fd, m, most, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC, NULL);
    for (int i = 0; i < n; i++)
        ret->are_good[i] = m[i].msg_len == sizeof(ret->messages[i]) &&
                           ret->messages[i].version == REGION_VERSION &&
                           take_sender(&m[i].msg_hdr, &ret->from[i]);
    return n < 0 ? 0 : (unsigned)n;
}

/* --- Windows --- */

static void open_window(struct share_sockets *s)
{
    const struct itimerspec spec = {.it_value.tv_nsec = WINDOW_MS * 1000000L};
    if (!s->is_open)
        s->is_open = timerfd_settime(s->timer, /* flags= */ 0, &spec, NULL) == 0;
}

static void listen_to(struct share_sockets *s, unsigned slot, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.u32 = slot};
    HOLD(&s->mu);
    int fd = *place_of(s, slot);
    if (fd >= 0)
        (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, fd, &ev);
}

/* Those that said too much are heard again. */
static void close_window(struct share_sockets *s)
{
    uint64_t count = 0;
    if (read(s->timer, &count, sizeof(count)) < 0)
        return;
    s->is_open = false;
    for (unsigned i = 0; i < N_SLOTS; i++) {
        if (s->heard[i] >= MOST)
            listen_to(s, SLOT_SHARES_FIRST + i, true);
        s->heard[i] = 0;
    }
}

static void hear(struct share_sockets *s, unsigned slot, share_heard_fn *heard, void *arg)
{
    struct batch batch;
    unsigned *n = &s->heard[slot - SLOT_SHARES_FIRST];
    open_window(s);
    unsigned got = receive(s, slot, MOST - *n < BATCH ? MOST - *n : BATCH, &batch);
    *n += got;
    for (unsigned i = 0; i < got; i++) {
        if (batch.are_good[i])
            heard(arg, slot, &batch.from[i], &batch.messages[i]);
    }
    if (*n >= MOST && s->is_open)
        listen_to(s, slot, false);
}

int share_sockets_fd(const struct share_sockets *s)
{
    return s->epoll;
}

void share_sockets_step(struct share_sockets *s, share_heard_fn *heard, void *arg)
{
    struct epoll_event ready[BATCH];
    int n = epoll_wait(s->epoll, ready, BATCH, /* timeout= */ 0);
    for (int i = 0; i < n; i++) {
        if (ready[i].data.u32 == OF_TIMER)
            close_window(s);
        else
            hear(s, ready[i].data.u32, heard, arg);
    }
}
