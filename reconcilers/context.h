/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/strmap.h"

#include "controller/controller.h"
#include "kubeclient/client.h"
#include "kubeclient/expectations.h"
#include "kubeclient/recorder.h"
#include "reconcilers/rollout.h"
#include "reconcilers/serving.h"
#include "reconcilers/silence.h"
#include "reconcilers/told.h"
#include "reconcilers/wishes.h"

/*
 * The dependencies that all reconcilers share. It is filled once; afterwards only the parts that it
 * points to change, and any thread may use each of them. Reconcilers keep no state of their own.
 * All that they remember is in the caches, in the rollout ledger (rebuilt from the caches), in the
 * expectations about writes that the caches have not shown yet, and in the last text of each Event.
 */
struct context {
    struct kc *kc; /* writes fail unless this process is the leader */
    const struct clock *clk;
    struct recorder *recorder; /* NULL: no events */
    struct informer *nodes, *devices, *profiles, *configs;
    struct koordinator_link *koordinator; /* NULL: Koordinator is left alone */
    struct caches caches;                 /* the stores of these informers */
    struct rollout *rollout;              /* keyed by profile */
    struct rollout *config_ledger;        /* keyed by MIGConfig: standings only, no tickets */
    struct expectations *node_writes, *spec_writes, *profile_writes, *config_writes,
        *koordinator_writes;
    struct strmap *retired_since;   /* node → monotonic ms; used by reconcilers/retired.c only */
    struct breach_ledger *breaches; /* by node: those that its pods were told of */
    struct told *label_told;   /* by node: the last Event about its label nvidia.com/mig.config */
    struct told *silence_told; /* by node: the last Event about an agent that does not answer */
    struct silence *silence;   /* by node: since when its agent owes an answer */
    struct serving *serving;   /* by node: since when its kubelet lacks what the Device offers */
    struct wishes *wishes;     /* by node: since when its hardware is to change */
    struct wq *node_queue;     /* node controller's: nodes that may go on */
    struct wq *profile_queue;  /* gpuprofile controller's: profiles whose counts changed */
    struct wq *config_queue;   /* migconfig controller's: configurations whose nodes changed */
    int workers;               /* for each controller */
    size_t many_nodes;         /* an object with more nodes is summarized at most once a second */
};
