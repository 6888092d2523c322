/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/reactor.h"

struct world {
    struct clock *clk;
    struct reactor *r;
    int fds[2]; /* two ends of one connection */
};

static struct world world_new(void)
{
    struct world w = {.clk = clock_fake_new(0)};
    cr_assert_eq(reactor_new(w.clk, &w.r, NULL), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.fds), 0);
    return w;
}

static void world_done(struct world *w)
{
    close(w->fds[0]);
    close(w->fds[1]);
    (void)reactor_free(w->r);
    (void)clock_free(w->clk);
}
#define auto_world __attribute__((cleanup(world_done)))

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, wait_ms) == 1;
}

static void say(int fd)
{
    cr_assert_eq(write(fd, "x", 1), 1);
}

/* What was called, in order. */
static char calls[32];
static size_t n_calls;

static void note(char c)
{
    cr_assert_lt(n_calls, sizeof(calls) - 1);
    calls[n_calls++] = c;
}

static char name_a[] = "a", name_b[] = "b", name_c[] = "c", name_f[] = "f", name_o[] = "o",
            name_t[] = "t", name_u[] = "u", name_w[] = "w";

static void on_timer(void *arg)
{
    note(*(const char *)arg);
}

static void on_events(void *arg, uint32_t events)
{
    (void)events;
    note(*(const char *)arg);
}

Test(reactor, calls_timers_in_the_order_of_their_time)
{
    auto_world struct world w = world_new();
    struct reactor_timer *b = reactor_timer_new(w.r, on_timer, name_b);
    struct reactor_timer *a = reactor_timer_new(w.r, on_timer, name_a);
    struct reactor_timer *c = reactor_timer_new(w.r, on_timer, name_c);
    reactor_timer_set(b, 20);
    reactor_timer_set(c, 20);
    reactor_timer_set(a, 10);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "");
    clock_fake_advance(w.clk, 19);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "a");
    clock_fake_advance(w.clk, 1);
    reactor_run(w.r, -1);
    cr_expect_str_eq(calls, "abc");
    (void)reactor_timer_free(a);
    (void)reactor_timer_free(b);
    (void)reactor_timer_free(c);
}

Test(reactor, a_timer_set_again_or_unset_forgets_its_earlier_setting)
{
    auto_world struct world w = world_new();
    struct reactor_timer *again = reactor_timer_new(w.r, on_timer, name_a);
    struct reactor_timer *unset = reactor_timer_new(w.r, on_timer, name_u);
    struct reactor_timer *freed = reactor_timer_new(w.r, on_timer, name_f);
    reactor_timer_set(again, 10);
    reactor_timer_set(again, 30);
    reactor_timer_set(unset, 10);
    reactor_timer_set(freed, 10);
    reactor_timer_unset(unset);
    (void)reactor_timer_free(freed);
    clock_fake_advance(w.clk, 10);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "");
    clock_fake_advance(w.clk, 20);
    reactor_dispatch(w.r);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "a");
    (void)reactor_timer_free(again);
    (void)reactor_timer_free(unset);
}

static void on_timer_set_again(void *arg)
{
    struct reactor_timer **t = arg;
    note('t');
    reactor_timer_set(*t, 0);
}

Test(reactor, a_timer_that_sets_itself_to_now_waits_for_the_next_round)
{
    auto_world struct world w = world_new();
    struct reactor_timer *t = NULL;
    t = reactor_timer_new(w.r, on_timer_set_again, &t);
    struct reactor_timer *other = reactor_timer_new(w.r, on_timer, name_o);
    reactor_timer_set(t, 0);
    reactor_timer_set(other, 0);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "to");
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "tot");
    (void)reactor_timer_free(t);
    (void)reactor_timer_free(other);
}

Test(reactor, its_descriptor_wakes_for_timers_and_only_then)
{
    auto_reactor struct reactor *r = NULL;
    cr_assert_eq(reactor_new(clock_real(), &r, NULL), 0);
    struct reactor_timer *t = reactor_timer_new(r, on_timer, name_t);
    cr_expect_not(is_readable(reactor_fd(r), 0));
    reactor_timer_set(t, 1);
    cr_expect(is_readable(reactor_fd(r), 10000));
    reactor_dispatch(r);
    cr_expect_str_eq(calls, "t");
    cr_expect_not(is_readable(reactor_fd(r), 0), "nothing more to come");
    reactor_timer_set(t, 0);
    reactor_timer_unset(t);
    cr_expect_not(is_readable(reactor_fd(r), 0), "nothing is set");
    (void)reactor_timer_free(t);
}

Test(reactor, a_wake_up_before_the_clocks_time_is_forgiven)
{
    auto_world struct world w = world_new();
    struct reactor_timer *t = reactor_timer_new(w.r, on_timer, name_t);
    reactor_timer_set(t, 1);
    cr_assert(is_readable(reactor_fd(w.r), 10000), "real time passes");
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "", "the clock stands");
    clock_fake_advance(w.clk, 1);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "t");
    (void)reactor_timer_free(t);
}

static void on_sum(void *arg, uint32_t events)
{
    *(uint32_t *)arg |= events;
}

Test(reactor, tells_what_happened_to_a_descriptor)
{
    auto_world struct world w = world_new();
    uint32_t seen = 0;
    struct reactor_watch *watch = NULL;
    cr_assert_eq(reactor_watch(w.r, w.fds[0], EPOLLIN, on_sum, &seen, &watch, NULL), 0);
    reactor_dispatch(w.r);
    cr_expect_eq(seen, 0);
    say(w.fds[1]);
    reactor_run(w.r, 0);
    cr_expect_eq(seen, EPOLLIN);
    reactor_watch_change(watch, EPOLLOUT);
    seen = 0;
    reactor_dispatch(w.r);
    cr_expect_eq(seen, EPOLLOUT);
    reactor_watch_change(watch, 0);
    seen = 0;
    reactor_dispatch(w.r);
    cr_expect_eq(seen, 0);
    (void)reactor_unwatch(watch);
}

Test(reactor, refuses_a_descriptor_that_cannot_be_watched)
{
    auto_world struct world w = world_new();
    struct reactor_watch *watch = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(reactor_watch(w.r, -1, EPOLLIN, on_events, name_w, &watch, &e), -ERR_SYSTEM);
    cr_expect_null(watch);
}

/* Two watches, of which whoever is called first removes the other and its own. */
struct pair {
    struct reactor_watch *watches[2];
    int calls;
};

static void on_remove_both(void *arg, uint32_t events)
{
    (void)events;
    struct pair *p = arg;
    p->calls++;
    for (size_t i = 0; i < ARRAY_LEN(p->watches); i++)
        p->watches[i] = reactor_unwatch(p->watches[i]);
}

Test(reactor, what_is_removed_during_a_round_is_not_called_in_it)
{
    auto_world struct world w = world_new();
    struct pair p = {0};
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(reactor_watch(w.r, w.fds[i], EPOLLOUT, on_remove_both, &p, &p.watches[i],
                                   NULL),
                     0);
    reactor_dispatch(w.r);
    reactor_dispatch(w.r);
    cr_expect_eq(p.calls, 1);
}

static void on_free_timer(void *arg, uint32_t events)
{
    (void)events;
    struct reactor_timer **t = arg;
    note('w');
    *t = reactor_timer_free(*t);
}

Test(reactor, a_watch_may_free_a_timer_that_is_due_in_the_same_round)
{
    auto_world struct world w = world_new();
    struct reactor_timer *t = reactor_timer_new(w.r, on_timer, name_t);
    struct reactor_watch *watch = NULL;
    cr_assert_eq(reactor_watch(w.r, w.fds[0], EPOLLOUT, on_free_timer, &t, &watch, NULL), 0);
    reactor_timer_set(t, 0);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "w");
    (void)reactor_unwatch(watch);
}

static void on_free_self(void *arg)
{
    struct reactor_timer **t = arg;
    note('f');
    *t = reactor_timer_free(*t);
}

Test(reactor, a_timer_may_free_itself)
{
    auto_world struct world w = world_new();
    struct reactor_timer *t = NULL;
    t = reactor_timer_new(w.r, on_free_self, &t);
    reactor_timer_set(t, 0);
    reactor_dispatch(w.r);
    reactor_dispatch(w.r);
    cr_expect_str_eq(calls, "f");
    cr_expect_null(t);
}
