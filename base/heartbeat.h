/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sb.h"

/*
 * Does every part of a process still turn? A part says when it begins one thing (a reconcile, a
 * round of a loop, a request) and when it waits for the next; waiting is never too long, however
 * long it takes. A part that has been at one thing for longer than its bound is stale. Nothing
 * here has a timer or wakes anybody: it is looked at when somebody asks, for a liveness probe.
 *
 * Parts are added at set-up by one thread, before anybody asks. Everything else: any thread,
 * lock-free.
 */
struct heartbeats;
struct heartbeat;

/* Borrows clk (monotonic time). */
struct heartbeats *heartbeats_new(const struct clock *clk);
/* name is copied: at most 31 bytes of it. Owned by the set, for its life. */
struct heartbeat *heartbeat_add(struct heartbeats *set, const char *name, int64_t bound_ms);

/* Begins one thing, or the next. NULL allowed: nobody asks. */
void heartbeat_busy(struct heartbeat *b);
/* The same as of a time, which may lie ahead: what is due then and not begun is as good as waiting
 * until then. NULL allowed. */
void heartbeat_busy_from(struct heartbeat *b, int64_t mono_ms);
/* Waits for the next. NULL allowed. */
void heartbeat_idle(struct heartbeat *b);
/* False for NULL. */
bool heartbeat_is_stale(const struct heartbeat *b);

/* True when no part is stale. Otherwise adds a line for each that is to out (NULL: no text): its
 * name, and for how long it has made no progress. */
bool heartbeats_check(const struct heartbeats *set, struct sb *out);

/* Once no part says anything any more. NULL allowed; returns NULL. */
struct heartbeats *heartbeats_free(struct heartbeats *set);
AUTO_DEFINE_PTR(heartbeats, struct heartbeats, heartbeats_free)
#define auto_heartbeats AUTO_PTR(heartbeats)
