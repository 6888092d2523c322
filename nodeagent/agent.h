/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "controller/metrics.h"
#include "kubeclient/informer.h"
#include "kubeclient/recorder.h"
#include "nodeagent/health_watch.h"
#include "nodeagent/koord_infos.h"
#include "nodeagent/kubelet_link.h"
#include "nodeagent/late_binding.h"
#include "nodeagent/publisher.h"
#include "nodeagent/transaction.h"
#include "nodeagent/worker.h"

/*
 * The node's loop: one thread owns what is wanted, what was read and how each attempt went; the
 * worker's thread owns the hardware; the publisher's thread talks to the API server. The loop only
 * ever moves values between them, so nothing that hangs can stop it.
 *
 * Read → compare with Device.spec → one job a card (a transaction) → read that card back → publish.
 * A card that is in use is looked at every second, one that failed with backoff, everything every
 * resync interval.
 */
struct agent;

struct agent_deps {
    struct worker *worker;
    struct informer *devices; /* of the own Device, own_device_type */
    struct publisher *publisher;
    struct recorder *recorder;   /* NULL: no events */
    struct metrics *metrics;     /* NULL: none */
    struct heartbeat *beat;      /* of the loop; NULL: nobody asks */
    struct health_watch *health; /* NULL: what a reading says of health is all */
    const struct clock *clk;
    const char *node;
    const char *state_dir; /* of the journals */
    const char *proc_root; /* NULL: /proc */
    const char *sys_root;  /* NULL: /sys */
    const char *version;
    const struct plugin_config *config; /* what holds where the Device does not; NULL: nothing */
    int resource_publisher; /* enum api_publisher: who brings the resources to the node */
    /* Serves the kubelet where we publish through it, else observes it; NULL: there is none, the
     * controller brings the resources to the node. */
    struct kubelet_link *kubelet;
    struct koord_infos *koordinator; /* koordlet is told of the cards by a file; NULL: it is not */
    struct late_binding *slots;      /* of slices made for pods; NULL: none are */
    struct pod_reader *pods;         /* its reader */
    const struct cdi_slots *cdi_slots; /* where their meaning is said; NULL: nowhere */
    struct driver_where driver;        /* where we serve: where containers' device files are */
    int64_t resync_ms;                 /* 0: 30 s */
    uint64_t seed;
};

/* Borrows deps; they outlive it. Only before the informer runs (a handler is added). */
struct agent *agent_new(const struct agent_deps *d);
/* Runs until the scope ends. Blocks; one thread. */
int agent_run(struct agent *a, struct scope *s, struct err *e) MUST_CHECK;
/* One round of it: starts what is due, waits at most max_wait_ms for an event or for the next thing
 * to become due, takes what came, publishes. For tests, in place of agent_run. */
void agent_step(struct agent *a, const struct scope *s, int64_t max_wait_ms);
/* For /readyz: was the hardware read and the Device seen? Any thread. */
bool agent_is_ready(const struct agent *a);
struct agent *agent_free(struct agent *a);

AUTO_DEFINE_PTR(agent, struct agent, agent_free)
#define auto_agent AUTO_PTR(agent)
