/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event sets of both vendors' libraries: an opaque pointer for which a client registers cards. The
 * sets of a process are kept in a list, so that a bad pointer is recognised and never followed. Any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/state.h"

struct event_set;

enum event_found { EVENT_NONE, EVENT_FOUND, EVENT_ENDED, EVENT_NO_SET };

/* A set that receives the events after number `seen`; NULL without memory. */
struct event_set *event_set_new(uint64_t seen);

/* Frees it; false when it is no set. */
bool event_set_drop(const struct event_set *set);

/* Adds types of one card's events; false when it is no set. */
bool event_set_register(const struct event_set *set, uint32_t card, uint64_t types);

/* True when the set has that card. Only an event_end_fn may call it. */
bool event_set_has(const struct event_set *set, uint32_t card);

/* True when the wait must end although there is no event. The state is locked. */
typedef bool event_end_fn(const struct event_set *set, const struct hw *hw);

/*
 * Waits for the next event of the set, at most timeout_ms (negative: without end). FOUND with *ret,
 * NONE on timeout, ENDED by `ends` (NULL: never), NO_SET when it is no set (any more).
 */
enum event_found event_set_wait(struct state *s, const struct event_set *set, int64_t timeout_ms,
                                event_end_fn *ends, struct hw_event *ret);
