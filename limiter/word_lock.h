/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock between processes in one word of shared memory, which is taken over from a process that
 * was killed while it had it: what it guards must be right after each single store.
 *
 * The C library's robust mutexes would do the same, but the programs of a container may have
 * different C libraries. One thread of a process at a time.
 */
#pragma once

#include <stdint.h>

#include "limiter/peer.h"

/* started: a word beside it, which tells the holder from a later process with its pid. */
void word_lock(uint32_t *word, uint64_t *started, const struct peer *own);
void word_unlock(uint32_t *word, uint64_t *started);
