/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

#include "limiter/region.h"

/*
 * Carries out who may put work on a card when (turns.h): writes the gates of containers into their
 * terms, hears what their processes say, and notices when one ends. While each card is wanted by one
 * container at most, whose claim is not capped, it neither wakes nor writes.
 *
 * Any thread puts and drops; one thread hears and steps.
 */
struct arbiter;

/* Borrows clk. ERR_SYSTEM. */
int arbiter_new(const struct clock *clk, struct arbiter **ret, struct err *e) MUST_CHECK;
/* Opens all gates first: nobody is to wait for an agent that has ended. NULL allowed; returns NULL. */
struct arbiter *arbiter_free(struct arbiter *a);
AUTO_DEFINE_PTR(arbiter, struct arbiter, arbiter_free)
#define auto_arbiter AUTO_PTR(arbiter)

enum { ARBITER_MAX_SLOTS = 3072 };

/* The container with this slot (the lowest of its slots) has these terms, or other percents in them
 * than before; of another container under the same slot the earlier one is dropped first. Cards of
 * which the library does not hold the compute keep their gate open. Takes the mapped terms, which
 * munmap frees. */
void arbiter_put(struct arbiter *a, unsigned slot, struct terms *take_terms);
/* Opens its gates: its processes may outlive it for a moment. No effect without. */
void arbiter_drop(struct arbiter *a, unsigned slot);

/* What a process of the container has said. arbiter_step is due then. */
void arbiter_hear(struct arbiter *a, unsigned slot, const struct ucred *from,
                  const struct share_message *m);

/* Readable when arbiter_step is due. Owned by a. */
int arbiter_fd(const struct arbiter *a);
/* Does what is due. Never blocks. */
void arbiter_step(struct arbiter *a);

/* How long the container has had each of its cards in turns, how long it had work for it and did not
 * have it, and how often it did not finish in time. False: it is not known, or that card is not held. Any thread. */
struct arbiter_sums {
    int64_t held_ns;
    int64_t throttled_ns;
    uint64_t overruns;
};
bool arbiter_sums(struct arbiter *a, unsigned slot, unsigned card, struct arbiter_sums *ret);
