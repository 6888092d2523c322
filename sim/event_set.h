/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of events to wait for, as both vendors' libraries have them: an opaque pointer that a client
 * registers cards with. The sets of a process are kept in a list, so that a pointer to none of them
 * is recognised and never followed. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/state.h"

struct event_set;

enum event_found { EVENT_NONE, EVENT_FOUND, EVENT_ENDED, EVENT_NO_SET };

/* A set that sees what happens after event number `seen`; NULL without memory. */
struct event_set *event_set_new(uint64_t seen);

/* Frees it; false for a set that is none. */
bool event_set_drop(const struct event_set *set);

/* Adds types of one card's events; false for a set that is none. */
bool event_set_register(const struct event_set *set, uint32_t card, uint64_t types);

/* True when the set has that card. To be called by an event_end_fn alone. */
bool event_set_has(const struct event_set *set, uint32_t card);

/* Says that the wait is over though no event is there. The state is locked. */
typedef bool event_end_fn(const struct event_set *set, const struct hw *hw);

/*
 * Waits for the next event of the set, at most timeout_ms (negative: without end). FOUND with *ret,
 * NONE when the time is over, ENDED by `ends` (NULL: never), NO_SET when it is none (any more).
 */
enum event_found event_set_wait(struct state *s, const struct event_set *set, int64_t timeout_ms,
                                event_end_fn *ends, struct hw_event *ret);
