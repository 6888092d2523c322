/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/xalloc.h"

/*
 * Each scope owns an eventfd that is written once, on cancel. Children are in a list of their
 * parent that the parent's mutex guards; cancel walks the tree downwards, taking one mutex inside
 * its parent's (lock order: root to leaf).
 */
struct scope {
    struct scope *parent;
    int64_t deadline_mono_ms; /* INT64_MAX: none */
    int fd;
    atomic_bool canceled;
    pthread_mutex_t mu;
    struct scope *children; /* guarded by mu */
    struct scope *next;     /* guarded by the parent's mu */
};

static void attach(struct scope *parent, struct scope *s)
{
    HOLD(&parent->mu);
    s->next = parent->children;
    parent->children = s;
    if (atomic_load(&parent->canceled))
        scope_cancel(s);
}

/* The time ms from now; INT64_MAX (never) for ms < 0 and for sums beyond the clock's range. */
static int64_t moment_in(int64_t ms)
{
    int64_t now = clock_mono_ms(clock_real());
    return ms < 0 || ms > INT64_MAX - now ? INT64_MAX : now + ms;
}

struct scope *scope_new(struct scope *parent, int64_t timeout_ms)
{
    struct scope *s = xmalloc(sizeof(*s));
    s->parent = parent;
    s->fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&s->mu, NULL);
    atomic_init(&s->canceled, false);
    s->deadline_mono_ms = moment_in(timeout_ms);
    if (parent) {
        if (parent->deadline_mono_ms < s->deadline_mono_ms)
            s->deadline_mono_ms = parent->deadline_mono_ms;
        attach(parent, s);
    }
    return s;
}

void scope_cancel(struct scope *s)
{
    HOLD(&s->mu);
    if (atomic_exchange(&s->canceled, true))
        return;
    (void)eventfd_write(s->fd, 1);
    for (struct scope *child = s->children; child; child = child->next)
        scope_cancel(child);
}

bool scope_is_canceled(const struct scope *s)
{
    return atomic_load(&s->canceled);
}

int scope_cancel_fd(const struct scope *s)
{
    return s->fd;
}

int64_t scope_left_ms(const struct scope *s)
{
    if (scope_is_canceled(s))
        return 0;
    if (s->deadline_mono_ms == INT64_MAX)
        return INT64_MAX;
    int64_t left = s->deadline_mono_ms - clock_mono_ms(clock_real());
    return left > 0 ? left : 0;
}

static int to_poll_ms(int64_t ms)
{
    if (ms == INT64_MAX)
        return -1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int scope_poll_ms(const struct scope *s)
{
    return to_poll_ms(scope_left_ms(s));
}

int scope_check(const struct scope *s, struct err *e)
{
    if (scope_is_canceled(s))
        return err_set(e, ERR_CANCELED, "canceled");
    if (scope_left_ms(s) == 0)
        return err_set(e, ERR_TIMEOUT, "the deadline passed");
    return 0;
}

bool scope_wait_ms(const struct scope *s, int64_t ms)
{
    int64_t until = moment_in(ms);
    for (;;) {
        int64_t left = scope_left_ms(s);
        if (left == 0)
            return false;
        int64_t rest = until == INT64_MAX ? INT64_MAX : until - clock_mono_ms(clock_real());
        if (rest <= 0)
            return true;
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        (void)poll(&p, 1, to_poll_ms(left < rest ? left : rest));
    }
}

int scope_wait_readable(const struct scope *s, int fd, struct err *e)
{
    for (;;) {
        TRY(scope_check(s, e));
        struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
        if (poll(p, ARRAY_LEN(p), scope_poll_ms(s)) > 0 && p[0].revents)
            return 0;
    }
}

static bool is_childless(struct scope *s)
{
    HOLD(&s->mu);
    return !s->children;
}

static void detach(struct scope *parent, const struct scope *s)
{
    HOLD(&parent->mu);
    struct scope **link = &parent->children;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
}

struct scope *scope_free(struct scope *s)
{
    if (!s)
        return NULL;
    assert(is_childless(s));
    if (s->parent)
        detach(s->parent, s);
    (void)close(s->fd);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
