/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reactor.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/timerfd.h>

#include "base/xalloc.h"

#define EVENTS_A_ROUND 32

/*
 * One epoll descriptor with a timerfd in it. Timers are in a list by due time, then by age, and are
 * inserted from its end, where most belong. The timerfd is set for the first of them; it only
 * wakes, the clock decides what is due. A watch that is removed during a round is freed at its end,
 * because the events of that round point to it.
 */
TAILQ_HEAD(timer_list, reactor_timer);

struct reactor {
    const struct clock *clk;
    int epoll_fd, timer_fd;
    struct timer_list timers;
    uint64_t settings; /* incremented by reactor_timer_set: the age of a setting */
    int64_t armed_due; /* the time that timer_fd is set to; INT64_MAX: unset */
    struct reactor_watch *removed;
    size_t n_watches;
    bool in_round;
};

struct reactor_watch {
    struct reactor *reactor;
    int fd;
    reactor_watch_fn *fn; /* NULL once removed */
    void *arg;
    struct reactor_watch *next_removed;
};

struct reactor_timer {
    struct reactor *reactor;
    reactor_timer_fn *fn;
    void *arg;
    bool is_set;
    int64_t due; /* mono_ms */
    uint64_t age;
    TAILQ_ENTRY(reactor_timer) link;
};

/* ---- making ---- */

static int open_fds(struct reactor *r, struct err *e)
{
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (r->epoll_fd < 0)
        return err_set_errno(e, errno, "epoll_create1");
    r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r->timer_fd < 0)
        return err_set_errno(e, errno, "timerfd_create");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->timer_fd, &event) < 0)
        return err_set_errno(e, errno, "epoll_ctl");
    return 0;
}

int reactor_new(const struct clock *clk, struct reactor **ret, struct err *e)
{
    auto_reactor struct reactor *r = xmalloc(sizeof(*r));
    *r = (struct reactor){.clk = clk, .epoll_fd = -1, .timer_fd = -1, .armed_due = INT64_MAX};
    TAILQ_INIT(&r->timers);
    TRY(open_fds(r, e));
    *ret = TAKE(r);
    return 0;
}

int reactor_fd(const struct reactor *r)
{
    return r->epoll_fd;
}

const struct clock *reactor_clock(const struct reactor *r)
{
    return r->clk;
}

struct reactor *reactor_free(struct reactor *r)
{
    if (!r)
        return NULL;
    assert(!r->in_round && r->n_watches == 0 && TAILQ_EMPTY(&r->timers));
    auto_close_fd(&r->timer_fd);
    auto_close_fd(&r->epoll_fd);
    free(r);
    return NULL;
}

/* ---- timers ---- */

/* Sets the timerfd for the first timer. A round does it once, at its end, because callbacks may
 * change the timers. */
static void arm(struct reactor *r)
{
    const struct reactor_timer *first = TAILQ_FIRST(&r->timers);
    int64_t due = first ? first->due : INT64_MAX;
    if (r->in_round || due == r->armed_due)
        return;
    struct itimerspec at = {0};
    int64_t left = first ? due - clock_mono_ms(r->clk) : 0;
    if (first && left > 0)
        at.it_value = (struct timespec){.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    else if (first)
        at.it_value.tv_nsec = 1; /* all zero would disarm the timerfd */
    int rc = timerfd_settime(r->timer_fd, 0, &at, NULL);
    assert(rc == 0);
    (void)rc;
    r->armed_due = due;
}

struct reactor_timer *reactor_timer_new(struct reactor *r, reactor_timer_fn *fn, void *arg)
{
    struct reactor_timer *t = xmalloc(sizeof(*t));
    *t = (struct reactor_timer){.reactor = r, .fn = fn, .arg = arg};
    return t;
}

static void take_out(struct reactor_timer *t)
{
    if (t->is_set)
        TAILQ_REMOVE(&t->reactor->timers, t, link);
    t->is_set = false;
}

static void put_in(struct reactor_timer *t)
{
    struct timer_list *timers = &t->reactor->timers;
    struct reactor_timer *before = TAILQ_LAST(timers, timer_list);
    while (before && before->due > t->due)
        before = TAILQ_PREV(before, timer_list, link);
    if (before)
        TAILQ_INSERT_AFTER(timers, before, t, link);
    else
        TAILQ_INSERT_HEAD(timers, t, link);
    t->is_set = true;
}

void reactor_timer_set(struct reactor_timer *t, int64_t ms)
{
    struct reactor *r = t->reactor;
    int64_t now = clock_mono_ms(r->clk);
    take_out(t);
    t->due = ms > INT64_MAX - 1 - now ? INT64_MAX - 1 : now + (ms > 0 ? ms : 0);
    t->age = r->settings++;
    put_in(t);
    arm(r);
}

void reactor_timer_unset(struct reactor_timer *t)
{
    take_out(t);
    arm(t->reactor);
}

struct reactor_timer *reactor_timer_free(struct reactor_timer *t)
{
    if (!t)
        return NULL;
    reactor_timer_unset(t);
    free(t);
    return NULL;
}

/* Timers set in this round wait for the next one, so that one that sets itself again cannot hold
 * the loop. They are due at `now` or later and younger, so in the list they follow all others that
 * are due. */
static void call_timers(struct reactor *r, int64_t now, uint64_t settings)
{
    struct reactor_timer *t;
    while ((t = TAILQ_FIRST(&r->timers)) && t->due <= now && t->age < settings) {
        take_out(t);
        t->fn(t->arg);
    }
}

/* ---- watches ---- */

int reactor_watch(struct reactor *r, int fd, uint32_t events, reactor_watch_fn *fn, void *arg,
                  struct reactor_watch **ret, struct err *e)
{
    auto_free struct reactor_watch *w = xmalloc(sizeof(*w));
    *w = (struct reactor_watch){.reactor = r, .fd = fd, .fn = fn, .arg = arg};
    struct epoll_event event = {.events = events, .data.ptr = w};
    if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return err_set_errno(e, errno, "epoll_ctl");
    r->n_watches++;
    *ret = TAKE(w);
    return 0;
}

void reactor_watch_change(struct reactor_watch *w, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = w};
    int rc = epoll_ctl(w->reactor->epoll_fd, EPOLL_CTL_MOD, w->fd, &event);
    assert(rc == 0);
    (void)rc;
}

struct reactor_watch *reactor_unwatch(struct reactor_watch *w)
{
    if (!w)
        return NULL;
    struct reactor *r = w->reactor;
    int rc = epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    assert(rc == 0);
    (void)rc;
    r->n_watches--;
    w->fn = NULL;
    if (!r->in_round) {
        free(w);
        return NULL;
    }
    w->next_removed = r->removed;
    r->removed = w;
    return NULL;
}

static void free_removed(struct reactor *r)
{
    while (r->removed) {
        struct reactor_watch *w = r->removed;
        r->removed = w->next_removed;
        free(w);
    }
}

static void on_timer_fd(struct reactor *r)
{
    uint64_t count = 0;
    ssize_t n = read(r->timer_fd, &count, sizeof(count));
    (void)n; /* nothing to read: the timerfd was set again meanwhile */
    r->armed_due = INT64_MAX;
}

static void call_watches(struct reactor *r)
{
    struct epoll_event events[EVENTS_A_ROUND];
    int n = epoll_wait(r->epoll_fd, events, ARRAY_LEN(events), 0);
    for (int i = 0; i < n; i++) {
        struct reactor_watch *w = events[i].data.ptr;
        if (!w)
            on_timer_fd(r);
        else if (w->fn)
            w->fn(w->arg, events[i].events);
    }
}

/* ---- rounds ---- */

void reactor_dispatch(struct reactor *r)
{
    assert(!r->in_round);
    r->in_round = true;
    int64_t now = clock_mono_ms(r->clk);
    uint64_t settings = r->settings;
    call_watches(r);
    call_timers(r, now, settings);
    r->in_round = false;
    free_removed(r);
    arm(r);
}

static bool is_timer_due(const struct reactor *r)
{
    const struct reactor_timer *first = TAILQ_FIRST(&r->timers);
    return first && first->due <= clock_mono_ms(r->clk);
}

void reactor_run(struct reactor *r, int64_t max_wait_ms)
{
    struct pollfd p = {.fd = r->epoll_fd, .events = POLLIN};
    int wait_ms = max_wait_ms < 0 ? -1 : max_wait_ms > INT32_MAX ? INT32_MAX : (int)max_wait_ms;
    (void)poll(&p, 1, is_timer_due(r) ? 0 : wait_ms);
    reactor_dispatch(r);
}
