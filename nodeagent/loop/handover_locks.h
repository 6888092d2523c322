/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The locks by which two agents of one node hand it over (docs/adr/0037-hand-over.md). The kernel
 * releases them when their process ends, however it ends, so no answer here outlives its agent.
 *
 *   <state_dir>/lock       the right to change the cards (journal.h); the stand-alone verbs and
 *                          releases before the hand-over know this one only
 *   <state_dir>/handover   four bytes, locked one by one:
 *     NEXT      the agent that is next, from its start until it is alone
 *     SUCCESSOR the same agent, until it serves the kubelet. The release of this byte tells the
 *               agent that leaves: the successor serves, or it died; SERVES says which
 *     SERVES    the same agent, from when the kubelet reads its streams until it leaves itself
 *     ANSWERS   the agent that may still answer the kubelet's grants, until its process has ended
 *
 * An agent takes NEXT, SUCCESSOR, the cards and ANSWERS in this order, and waits for each on a
 * thread of its own. An agent that leaves releases the cards, keeps ANSWERS, and waits for the
 * successor's SUCCESSOR.
 *
 * The thread owns what it waits for; every function below belongs to the loop's thread.
 */
struct handover_locks;

/* Takes the locks that are free, in order, and waits for the others. Makes state_dir. ERR_SYSTEM.
 */
int handover_locks_new(const char *state_dir, struct handover_locks **ret,
                       struct err *e) MUST_CHECK;
/* Readable when one of the answers below may have changed; handover_locks_check empties it. */
int handover_locks_fd(const struct handover_locks *l);
/* ERR_SYSTEM: waiting for a lock failed, and is not tried again. */
int handover_locks_check(struct handover_locks *l, struct err *e) MUST_CHECK;

/* True once this process has the right to change the cards, until handover_locks_release. */
bool handover_locks_have_cards(const struct handover_locks *l);
/* True once no other agent can answer the kubelet's grants. */
bool handover_locks_are_alone(const struct handover_locks *l);
/* Tells the agent before whether this one serves the kubelet, or cannot before that one has ended.
 * Once, with the cards. */
void handover_locks_announce(struct handover_locks *l, bool serves);

/* True while another agent waits to take over. Only while alone. */
bool handover_locks_are_awaited(const struct handover_locks *l);
/* Gives up the right to change the cards, and waits for the successor. Only while alone. ERR_SYSTEM. */
int handover_locks_release(struct handover_locks *l, struct err *e) MUST_CHECK;
/* After handover_locks_release: true once the successor has called handover_locks_announce, or is dead.
 */
bool handover_locks_are_succeeded(const struct handover_locks *l);
/* After that: true while the successor lives and serves the kubelet. */
bool handover_locks_are_served(const struct handover_locks *l);

/* Releases all. A thread that still waits is left behind with its descriptors, as the worker's are:
 * a wait for flock(2) cannot be ended, and the process is about to end. NULL allowed; returns
 * NULL. */
struct handover_locks *handover_locks_free(struct handover_locks *l);
AUTO_DEFINE_PTR(handover_locks, struct handover_locks, handover_locks_free)
#define auto_handover_locks AUTO_PTR(handover_locks)
