/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/recorder.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/offer/card_memo.h"
#include "nodeagent/slots/late_binding.h"

/*
 * The Kubernetes Events of the loop (the driver's events: gpu/gpu_event.h). All are about the Node:
 * the agent's account may not write Events about pods (config/admission). A plain value; borrows
 * its members. Never blocks.
 */
struct agent_events {
    struct recorder *recorder; /* NULL: no Events, log lines only */
    const struct clock *clk;
    const char *node;
};

void agent_event(const struct agent_events *ev, bool warning, const char *reason,
                 const char *message);
/* Reports the result in memo->result, by a log line and an Event; nothing where it repeats `was`,
 * and no Event where nothing changed. v is the card after the attempt. want NULL: the card is no
 * longer wanted. */
void agent_events_result(const struct agent_events *ev, const struct card_view *v,
                         const struct txn_result *was, const struct card_memo *memo,
                         const struct device_want *want);
/* Reports the containers whose slots could not be bound, each reason once. */
void agent_events_unbound(const struct agent_events *ev, struct late_binding *slots);
