/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

/*
 * Descriptors and timers behind one descriptor, for a loop that already polls others: it polls
 * reactor_fd too, and calls reactor_dispatch when that is readable. Timers are included (a
 * timerfd), so the loop needs no timeout for them, and an idle process does not wake.
 *
 * At each dispatch the clock decides which timers are due; the timerfd only wakes the loop. A test
 * with a fake clock advances it and dispatches, so no real time has to pass, and real time has no
 * effect.
 *
 * One thread. Callbacks may add and remove watches and timers, including their own. A watch or
 * timer removed during a round is not called in it any more. A round calls watches first, then
 * timers.
 */
struct reactor;
struct reactor_watch;
struct reactor_timer;

/* events: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR, as in epoll(7). */
typedef void reactor_watch_fn(void *arg, uint32_t events);
typedef void reactor_timer_fn(void *arg);

/* ERR_SYSTEM. Borrows clk (monotonic time). */
int reactor_new(const struct clock *clk, struct reactor **ret, struct err *e) MUST_CHECK;
/* Owned by the reactor. */
int reactor_fd(const struct reactor *r);
/* The clock given to reactor_new. */
const struct clock *reactor_clock(const struct reactor *r);
/* Calls all callbacks that are due; never blocks. */
void reactor_dispatch(struct reactor *r);
/* Blocks until something is due or max_wait_ms have passed (-1: no limit), then dispatches. For
 * tests, and for programs without another loop. */
void reactor_run(struct reactor *r, int64_t max_wait_ms);

/* Watches fd, which stays the caller's, until reactor_unwatch. ERR_SYSTEM. */
int reactor_watch(struct reactor *r, int fd, uint32_t events, reactor_watch_fn *fn, void *arg,
                  struct reactor_watch **ret, struct err *e) MUST_CHECK;
void reactor_watch_change(struct reactor_watch *w, uint32_t events);
/* Call it before the fd is closed. NULL allowed; returns NULL. */
struct reactor_watch *reactor_unwatch(struct reactor_watch *w);

/* A new timer is unset. */
struct reactor_timer *reactor_timer_new(struct reactor *r, reactor_timer_fn *fn, void *arg);
/* Calls fn once, after ms (0: at the next dispatch); replaces an earlier setting. */
void reactor_timer_set(struct reactor_timer *t, int64_t ms);
void reactor_timer_unset(struct reactor_timer *t);
/* NULL allowed; returns NULL. */
struct reactor_timer *reactor_timer_free(struct reactor_timer *t);

/* Free all watches and set timers first (unset timers may follow). Not from a callback. NULL
 * allowed; returns NULL. */
struct reactor *reactor_free(struct reactor *r);
AUTO_DEFINE_PTR(reactor, struct reactor, reactor_free)
#define auto_reactor AUTO_PTR(reactor)
