/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "nodeagent/loop/agent_deps.h"
#include "nodeagent/loop/handover.h"

/*
 * The agent's main loop. One thread, the loop's, owns the wants, the readings and the results of
 * every attempt. The worker's threads own the hardware; the status writer's thread writes to the
 * API server. The loop only moves values between them, so no hanging call can stop it.
 *
 * The course of a change: read the hardware, compare it with Device.spec, give the worker a job for
 * each card that differs (a transaction), read those cards back, publish. The jobs run side by
 * side.
 *
 * A card is attempted again (card_track.c has the pauses)
 *  - after a second, or when the holders change: something was in use;
 *  - after a growing pause: the attempt failed;
 *  - when another want comes: the change is held;
 *  - after a reading: the card is no longer as wanted, was refused, or is no longer infeasible.
 */
struct agent;

/* Borrows deps; they outlive the agent. Call it before the informer runs, since it adds a
 * handler. */
struct agent *agent_new(const struct agent_deps *d);
/* Runs until the scope ends, or until the agent was asked to end and has handed the node over, where
 * a standby waits (handover.h). Blocks; one thread. ERR_SYSTEM: the locks failed. */
int agent_run(struct agent *a, struct scope *s, struct err *e) MUST_CHECK;
/* One turn of the loop: starts what is due, waits at most max_wait_ms for an event or for the next
 * due time, takes the results, publishes. For tests, in place of agent_run. */
void agent_step(struct agent *a, const struct scope *s, int64_t max_wait_ms);
/* Asks the agent to end. Any thread, never blocks. */
void agent_ask_end(struct agent *a);
/* For /readyz: true once the hardware was read and the Device was seen. An agent that stands by is
 * ready when it could take over: it has seen the Device, the kubelet has answered it, and it has
 * read the hardware, or the agent that works has no card in the Device either. Any thread. */
bool agent_is_ready(const struct agent *a);
/* The phase. Any thread. */
enum handover_phase agent_phase(const struct agent *a);
struct agent *agent_free(struct agent *a);

AUTO_DEFINE_PTR(agent, struct agent, agent_free)
#define auto_agent AUTO_PTR(agent)
