/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that was given to a card while others want it, too: bounded, so that the card is free soon
 * after the gate is closed. An event follows each piece; who gives one more waits for an older one.
 * How many may be in flight comes from how long they take: as many as a card does in a millisecond,
 * at least two, which keep it busy.
 */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

/* After a piece of work was given. A stream whose work is only recorded (captured) has none in flight. */
void flight_add(int card, CUcontext context, CUstream stream);

/* True when all of it has been done. The calling thread's context is another one afterwards. */
bool flight_is_empty(int card);

/* The context is about to end, and its events with it. */
void flight_end_context(CUcontext context);
