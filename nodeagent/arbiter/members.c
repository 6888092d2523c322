/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/members.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/xalloc.h"

struct member {
    pid_t pid; /* 0: none */
    int fd;    /* -1: its end is not noticed */
};

struct members {
    struct member_watch *watch;
    uint64_t about;
    struct member *items; /* by number */
    unsigned n;
};

struct members *members_new(struct member_watch *watch, uint64_t about)
{
    struct members *m = xmalloc(sizeof(*m));
    *m = (struct members){.watch = watch, .about = about};
    return m;
}

/* A descriptor that another process has inherited would stay in the epoll though it is closed here. */
static void let_go(const struct members *m, struct member *one)
{
    if (one->fd >= 0) {
        (void)epoll_ctl(m->watch->epoll, EPOLL_CTL_DEL, one->fd, NULL);
        (void)close(one->fd);
        m->watch->n--;
    }
    *one = (struct member){.fd = -1};
}

void members_free(struct members *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < m->n; i++)
        let_go(m, &m->items[i]);
    free(m->items);
    free(m);
}

void members_swap(struct members *a, struct members *b)
{
    const struct members kept = *a;
    *a = *b;
    *b = kept;
}

static struct member *at(struct members *m, unsigned member)
{
    if (member >= m->n) {
        unsigned n = m->n ? m->n : 8;
        while (n <= member)
            n *= 2;
        m->items = xreallocarray(m->items, n, sizeof(*m->items));
        for (unsigned i = m->n; i < n; i++)
            m->items[i] = (struct member){.fd = -1};
        m->n = n;
    }
    return &m->items[member];
}

/* Returns its descriptor; -1: its end is not noticed. False: it has ended. */
static bool watch(struct members *m, unsigned member, pid_t pid, int *ret_fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = m->about + member};
    *ret_fd = -1;
    if (m->watch->n >= m->watch->most)
        return true;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno != ESRCH;
    if (epoll_ctl(m->watch->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
        (void)close(fd);
        return true;
    }
    m->watch->n++;
    *ret_fd = fd;
    return true;
}

enum member_news members_meet(struct members *m, unsigned member, pid_t pid)
{
    struct member *one = at(m, member);
    if (one->pid == pid)
        return MEMBER_KNOWN;
    bool was_other = one->pid != 0;
    int fd;
    if (!watch(m, member, pid, &fd))
        return MEMBER_ENDED;
    let_go(m, one);
    *one = (struct member){.pid = pid, .fd = fd};
    return was_other ? MEMBER_OTHER : MEMBER_KNOWN;
}

bool members_leave(struct members *m, unsigned member)
{
    if (member >= m->n || m->items[member].pid == 0)
        return false;
    let_go(m, &m->items[member]);
    return true;
}
