/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"

#include "nodeagent/offer/device_slots.h"

/*
 * The slots that may have left a slice, a record or a file behind, and when each is to be released.
 * One thread. A slot is in the list at most once.
 */
struct slot_leftover {
    unsigned slot;
    bool runs;   /* its release is under way */
    bool failed; /* the last release failed */
    bool done;   /* released; the slice must not show any more */
    struct backoff backoff;
    int64_t due_mono_ms;
};

struct slot_leftovers {
    const struct clock *clk; /* borrowed, as rng */
    struct rng *rng;
    struct backoff retry; /* between two releases of a slot */
    struct slot_leftover *items;
    size_t n;
};

void slot_leftovers_add(struct slot_leftovers *l, unsigned slot);
/* Removes a slot that is held, unless its release is under way. */
void slot_leftovers_drop(struct slot_leftovers *l, unsigned slot);
/* Puts off what is due: the holders are not known now. */
void slot_leftovers_put_off(struct slot_leftovers *l);

struct slot_questions {
    bool (*is_held)(const void *arg, unsigned slot);   /* by somebody: it is no leftover now */
    bool (*may_begin)(const void *arg, unsigned slot); /* its release; asked when nobody holds it */
    const void *arg;
};

/* The next slot to release, among those in the list and those in `made`. It counts as being
 * released until slot_leftovers_released. False: none is due, or none may begin. */
bool slot_leftovers_next(struct slot_leftovers *l, const struct slot_questions *q,
                         const struct device_slots *made, unsigned *ret);
/* Reports the result of a release. err NULL: it worked. */
void slot_leftovers_released(struct slot_leftovers *l, unsigned slot, const struct err *err);

/* Adds the slots whose release failed, or whose slice still shows after it. */
void slot_leftovers_sick(const struct slot_leftovers *l, const struct device_slots *made,
                         struct device_slots *ret);
/* The first time after this one at which something is due; INT64_MAX: none. */
int64_t slot_leftovers_due_mono_ms(const struct slot_leftovers *l, int64_t after_mono_ms);
void slot_leftovers_done(struct slot_leftovers *l);
