/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process has of its container's share: its slot in the file `usage`, and the container's
 * limits from `terms` (region.h).
 *
 * The sum over all processes of the container never passes a limit: a process adds to its own word
 * under a lock of the container, after it has summed all words. No total is stored, so a process
 * that is killed leaves only its own word behind, which whoever needs the room clears. The lock of
 * a killed process is taken over.
 *
 * Any thread may call anything. The child of a fork has no share until it attaches by itself.
 *
 * Assumed: the processes of a container see each other in one PID namespace. One in a namespace of
 * its own counts for the others as running for as long as its slot stands: what it had is not freed
 * when it is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/region.h"

/* Maps the files, to look only: takes no slot, writes nothing. True when they are there; false: as
 * share_attach has it. A program's library opens or attaches, not both. */
bool share_open(void);

/* Maps the files and takes a slot. True when it has one, also when called again. False: why is on
 * stderr, once; the process may not use the card then. */
bool share_attach(void);
bool share_is_attached(void);

/* The card with this UUID among the container's shares; -1: none of them. */
int share_card_of(const uint8_t uuid[16]);
/* Its terms. They change as the agent writes them. */
const struct terms_card *share_terms(int card);

/* Takes bytes of a card for this process. False: the limit is reached. While it has no share, as in
 * the child of a fork, these take and give back nothing, and the real library refuses. */
bool share_take(int card, uint64_t bytes);
/* The same past the limit, for what has been taken already. */
void share_take_anyway(int card, uint64_t bytes);
void share_give_back(int card, uint64_t bytes);
/* Says how much of what was taken its contexts have: the agent measures these. */
void share_note_contexts(int card, uint64_t n, uint64_t bytes);

/* At most one thread of the container is inside a trial. False: another one is: of this process, or
 * of another one that stayed inside for 100 ms. */
bool share_trial_begin(void);
void share_trial_end(void);

/* What all processes of the container have of a card together, those not counted that have ended. */
uint64_t share_taken(int card);

/* The processes of the container that have something of a card, with their own pids, at most n; not
 * those of another PID namespace, whose pids mean nothing here. Returns how many. */
struct share_process {
    uint32_t pid;
    uint64_t bytes;
};
unsigned int share_processes(int card, struct share_process *ret, unsigned int n);

/* The number of cards whose gate is not open. */
extern const uint32_t *share_heed;

/* What changes when the agent changes a gate, and what one waits for. */
const uint32_t *share_beat(void);

/* Tells the agent. False: it did not hear it, since it is away or hears too much. */
bool share_tell(enum share_word word, int card, uint32_t turn);
