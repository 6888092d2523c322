/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/node_state.h"

/*
 * The Device's conditions that answer what an installer asks of a node with cards: whether the
 * driver is there, whether containers get what they need, whether persistence mode is on, whether a
 * card waits for a reset or the node for a reboot. Each has its own remedy, in the message. Pure:
 * the same facts give the same words, so that a quiet node is not written.
 *
 *   DriverReady             the kernel's driver is loaded, and the library that the agent loaded is
 *                           of the same version
 *   ContainerRuntimeReady   containers get devices and what the driver brings for them; only where
 *                           the agent serves the kubelet
 *   PersistenceMode         the driver stays loaded on all cards while nothing uses them; only where
 *                           a driver reports it
 *   RebootRequired          True: a card waits for a reset, or the node for a reboot
 *
 * A node without cards has none of them.
 */

/* Their types; NULL ends the list. */
extern const char *const node_readiness_types[];

/* The reason that a failed reading of the cards gives, for node_state's read_reason. Static. */
const char *node_readiness_read_reason(const struct err *why);

/* Sets them in ret->conditions, or removes them. ret: the status built so far, with its cards. */
void node_readiness_build(const struct node_state *s, int64_t now_ms, struct device_status *ret);
