/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock between processes in one word of shared memory, which is taken over from a process that
 * was killed while it had it: what it guards must be right after each single store.
 *
 * The word is 0 while it is free. Else its lower half, a futex, is the pid of who has it, with the
 * highest bit set once somebody waits, and the upper half that process's mark (peer.h). Both change
 * at once: were they two words, a waiter could read a holder's pid beside the mark of the next,
 * find that there is no such process, and enter beside the first.
 *
 * The C library's robust mutexes would do the same, but the programs of a container may have
 * different C libraries. One thread of a process at a time.
 *
 * Whether a process of another PID namespace lives cannot be seen. It is taken for gone when it has
 * had the lock for two seconds; any other, which may be stopped, or run another program by now, when
 * it has had it for ten.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/peer.h"

void word_lock(uint64_t *word, const struct peer *own);
/* The same, for at most so many looks of 20 ms. False: it has it not. */
bool word_lock_within(uint64_t *word, const struct peer *own, int looks);
/* Leaves it as it is where it was taken over. */
void word_unlock(uint64_t *word, const struct peer *own);
