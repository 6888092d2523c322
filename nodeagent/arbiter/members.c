/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/members.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "limiter/region.h"

struct member {
    pid_t pid; /* 0: none */
    int fd;
};

struct members {
    struct member *items; /* by number */
    unsigned n;
};

struct members *members_new(void)
{
    return xcalloc(1, sizeof(struct members));
}

static void let_go(struct member *m)
{
    if (m->pid != 0 && m->fd >= 0)
        (void)close(m->fd);
    *m = (struct member){.fd = -1};
}

void members_free(struct members *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < m->n; i++)
        let_go(&m->items[i]);
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
        m->items = xrealloc(m->items, n * sizeof(*m->items));
        for (unsigned i = m->n; i < n; i++)
            m->items[i] = (struct member){.fd = -1};
        m->n = n;
    }
    return &m->items[member];
}

enum member_news members_meet(struct members *m, unsigned member, pid_t pid, int *ret_fd)
{
    struct member *found = at(m, member);
    if (found->pid == pid)
        return MEMBER_KNOWN;
    enum member_news news = found->pid != 0 ? MEMBER_OTHER : MEMBER_NEW;
    let_go(found);
    found->pid = pid;
    found->fd = (int)syscall(SYS_pidfd_open, pid, 0);
    *ret_fd = found->fd;
    return news;
}

bool members_leave(struct members *m, unsigned member)
{
    if (member >= m->n || m->items[member].pid == 0)
        return false;
    let_go(&m->items[member]);
    return true;
}
