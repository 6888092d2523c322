/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"

/* An agent's pod, as far as one must know it to read its page of telemetry. Pure. */

struct agent_pod {
    char *node, *pod, *created;
    uint16_t port;   /* of --metrics-addr */
    bool tls, token; /* its pages come over TLS; to bearers of a token alone */
};

/* Reads the pod. False: it is no agent that can be asked, such as one that ends, or is not ready.
 * *ret is overwritten. */
bool agent_pod_read(const json_t *pod, struct agent_pod *ret);
void agent_pod_done(struct agent_pod *p);

/* For qsort: by node; of one node's agents, while a new one takes over, the older first. */
int agent_pod_order(const void *a, const void *b);

AUTO_DEFINE(agent_pod, struct agent_pod, agent_pod_done)
#define auto_agent_pod AUTO(agent_pod)
