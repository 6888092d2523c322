/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that was given to a card while others want it, too: known, so that one can tell when it is
 * done, and bounded, so that this is soon after the gate is closed. An event follows each piece; who
 * gives one more waits for an older one. How many may be in flight comes from how long they take: as
 * many as a card does in a millisecond and a half, at least one beside the one that is given, so that
 * it stays busy; of long pieces that one is held back until the other is nearly done, so that whoever
 * wants the card meanwhile waits for one, not two.
 *
 * Nothing here waits in the driver: work that never ends, or that waits for the program itself,
 * holds nobody but who gave it.
 */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

/* The piece to wait for before the next one is given. */
struct flight_bound {
    CUevent oldest; /* NULL: there is nothing to wait for */
    unsigned int number;
};

/* How long the next piece is to be held back, in nanoseconds. */
uint64_t flight_early(CUcontext context, CUstream stream);
/* After a piece of work was given. */
struct flight_bound flight_add(int card, CUcontext context, CUstream stream);
/* Waits for the oldest while goes_on says so, and not for ever: a stream that waits for its own program
 * has to be fed. */
void flight_wait(CUcontext context, CUstream stream, const struct flight_bound *b,
                 bool (*goes_on)(int card), int card);

/* The last two are looks at the end of a turn, while nothing more is given: from them it is learned how
 * long pieces take, also where a turn has room for one or none. A piece that is done at the first look
 * may have been so for long. */
enum flight_look { FLIGHT_LOOK, FLIGHT_LOOK_FIRST, FLIGHT_LOOK_AGAIN };

/* True when all work of the card's contexts has been done, as far as their streams are known. The
 * calling thread's context is another one afterwards. */
bool flight_is_empty(int card, enum flight_look look);

/* The context is about to end, and its events with it. */
void flight_end_context(CUcontext context);
