/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"

#include "reconcilers/node_view.h"

/*
 * Whether what a Device says is served is there. The status of an agent that died stays as it was.
 * The kubelet sees the plugin's socket close, counts its devices as unhealthy, and reports 0 of
 * them as allocatable; a Device that offers some through the kubelet then contradicts its Node. A
 * contradiction that has lasted for SERVING_AFTER_MS is written into the Device: Ready becomes
 * Unknown with the reason AgentNotServing (ADR 33). An agent that lives, or comes back, overwrites
 * that with its own status. Then its Node is not written about again until the contradiction has
 * ended: two programs that disagree must not write by turns.
 *
 * No contradiction: a Node whose kubelet does not report (Ready is not True), a Device that offers
 * nothing (all cards are ill), resources that the controller or another's plugin publishes, and
 * names that the Node does not list yet. The time is counted from when this process first saw the
 * contradiction. About 100 bytes for each such node. Any thread; one mutex.
 */
struct serving;

/* A kubelet reports within ten seconds, and starts an agent that crashed or was deleted again within
 * less than this. */
enum { SERVING_AFTER_MS = 60000 };

/* The reason of Ready=Unknown, and of the standing. */
#define SERVING_GONE "AgentNotServing"

/* What is to be done about a node. */
struct serving_verdict {
    bool mark;        /* the Device is to be written */
    int64_t since_ms; /* wall clock; valid with mark */
    int64_t wait_ms;  /* after which to look again; 0: there is nothing to wait for */
};

struct serving *serving_new(void);
struct serving_verdict serving_note(struct serving *s, const struct clock *clk, const char *node,
                                    const struct node_view *v);
/* The Device was written as the verdict said. */
void serving_marked(struct serving *s, const char *node);
/* NULL allowed; returns NULL. */
struct serving *serving_free(struct serving *s);
AUTO_DEFINE_PTR(serving, struct serving, serving_free)
#define auto_serving AUTO_PTR(serving)

/* --- Pure --- */

/* True when Device and Node contradict each other as above. */
bool serving_is_contradicted(const struct node_view *v);
/* True when the Device says that its agent does not serve. */
bool serving_is_gone(const struct device_record *device);
/* The message of the condition and the Event. Caller frees. */
char *serving_message(const char *node, int64_t since_ms);
/* The body of a server-side apply of the Device's status with this one condition, under the uid and
 * the version of the view's Device. New reference. */
json_t *serving_body(const struct node_view *v, const char *message, int64_t now_ms);
