/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"

#include "reconcilers/node_view.h"

/*
 * Since when each node's agent owes an answer: Device.status.observedGeneration is behind the
 * generation of the spec. An agent acknowledges an order within a second, before it begins with the
 * work. The time is counted from when this process first saw the answer missing, so a new process
 * counts anew. About 100 bytes for each agent that is behind. Any thread; one mutex.
 */
struct silence;

/* An agent that owes an answer for as long is silent: it is taken for one that does not run, and
 * its node gets the reason AgentNotResponding (standing.h). In this time its pod is started again,
 * or the node, and the agent finds its driver. */
enum { SILENCE_AFTER_MS = 120000 };

struct silence *silence_new(void);
/* Fills v->silent, v->silent_since_ms. Returns the milliseconds after which the answer should be
 * looked for again; 0: there is nothing to wait for. A view without a Device owes nothing. */
int64_t silence_note(struct silence *s, const struct clock *clk, const char *node,
                     struct node_view *v);
/* NULL allowed; returns NULL. */
struct silence *silence_free(struct silence *s);
AUTO_DEFINE_PTR(silence, struct silence, silence_free)
#define auto_silence AUTO_PTR(silence)
