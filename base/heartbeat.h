/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sb.h"

/*
 * Shows whether every activity of a process still makes progress. An activity reports when it
 * begins a unit of work (a reconcile, a round of a loop, a request) and when it waits for the next
 * one; waiting may take any time. An activity whose unit takes longer than its bound is stale.
 * There is no timer: staleness is computed when a liveness probe asks.
 *
 * Heartbeats are added at set-up by one thread, before the first probe. Everything else: any
 * thread, lock-free.
 */
struct heartbeats;
struct heartbeat;

/* Borrows clk (monotonic time). */
struct heartbeats *heartbeats_new(const struct clock *clk);
/* name is copied: at most 31 bytes of it. Owned by the set, for its life. */
struct heartbeat *heartbeat_add(struct heartbeats *set, const char *name, int64_t bound_ms);

/* A unit of work begins. NULL allowed: no effect. */
void heartbeat_busy(struct heartbeat *b);
/* The unit counts as begun at a time that may lie ahead: work that is due then is waiting until
 * then. NULL allowed. */
void heartbeat_busy_from(struct heartbeat *b, int64_t mono_ms);
/* The activity waits for its next unit. NULL allowed. */
void heartbeat_idle(struct heartbeat *b);
/* False for NULL. */
bool heartbeat_is_stale(const struct heartbeat *b);

/* True when none is stale. Otherwise adds to out (NULL: no text) a line for each stale one: its
 * name, and for how long it has made no progress. */
bool heartbeats_check(const struct heartbeats *set, struct sb *out);

/* Call when no thread uses its heartbeats any more. NULL allowed; returns NULL. */
struct heartbeats *heartbeats_free(struct heartbeats *set);
AUTO_DEFINE_PTR(heartbeats, struct heartbeats, heartbeats_free)
#define auto_heartbeats AUTO_PTR(heartbeats)
