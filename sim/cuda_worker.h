/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two threads of a context: one carries out its streams' items and takes the card for kernels,
 * the other calls the program's functions. Each starts when there is the first item for it, and
 * ends with the context; nobody waits for that, and no thread keeps the process from its end. Their
 * signals are blocked.
 *
 * Kernels of one context run one after another; those of different streams take turns at the end of
 * a time slice. (A card would run them side by side where they leave it room.) Copies need no slice
 * of the card.
 */
#pragma once

#include "sim/cuda_queue.h"

/* Sees to it that there is the thread that items of that kind need. Contexts are locked. False: none
 * can be had. */
bool worker_start(struct work *w, enum work_kind kind);

/* An item was added to a stream. Locked. */
void worker_notice(struct stream *s);
