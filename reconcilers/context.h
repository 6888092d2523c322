/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/strmap.h"

#include "controller/controller.h"
#include "kubeclient/client.h"
#include "kubeclient/expectations.h"
#include "kubeclient/recorder.h"
#include "reconcilers/rollout.h"
#include "reconcilers/silence.h"
#include "reconcilers/told.h"

/*
 * What all reconcilers share. Filled once, then only its parts change, each of which any thread may
 * use. The reconcilers keep no state of their own: what they know is in the caches, in the ledger
 * of rollouts (rebuilt from the caches), in the notes about writes that the caches have not shown
 * yet, and in what the last Event said.
 */
struct context {
    struct kc *kc; /* writes fail unless this process leads */
    const struct clock *clk;
    struct recorder *recorder; /* NULL: no events */
    struct informer *nodes, *devices, *profiles, *configs;
    struct koordinator_link *koordinator; /* NULL: nothing is done for Koordinator */
    struct caches caches;                 /* of these informers */
    struct rollout *rollout;              /* by profile */
    struct rollout *config_ledger;        /* by configuration: standings only, no tickets */
    struct expectations *node_writes, *spec_writes, *profile_writes, *config_writes,
        *koordinator_writes;
    struct strmap *retired_since; /* node → monotonic ms; of reconcilers/retired.h alone */
    struct told *label_told;   /* by node: the last Event about its label nvidia.com/mig.config */
    struct told *silence_told; /* by node: the last Event about an agent that does not answer */
    struct silence *silence;   /* by node: since when its agent owes an answer */
    struct wq *node_queue;     /* of node: nodes that may go on */
    struct wq *profile_queue;  /* of gpuprofile: profiles whose counts moved */
    struct wq *config_queue;   /* of migconfig: configurations whose nodes moved */
    int workers;               /* of each controller */
    size_t many_nodes;         /* from here on a look at all nodes of an object is rationed */
};
