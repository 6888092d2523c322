/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/informer.h"
#include "kubeclient/recorder.h"
#include "nodeagent/change/transaction.h"
#include "nodeagent/health/health_watch.h"
#include "nodeagent/loop/handover.h"
#include "nodeagent/loop/handover_locks.h"
#include "nodeagent/loop/jobs.h"
#include "nodeagent/loop/kubelet_link.h"
#include "nodeagent/loop/status_writer.h"
#include "nodeagent/loop/worker.h"
#include "nodeagent/report/koord_infos.h"
#include "nodeagent/slots/late_binding.h"
#include "service/metrics.h"

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

struct agent_deps {
    struct worker *worker;
    const struct vendor_limit *limits; /* of n_limits vendors; the others have none */
    size_t n_limits;
    struct informer *devices; /* watches the agent's own Device (own_device_type) */
    struct status_writer *status_writer;
    struct recorder *recorder;   /* NULL: no events */
    struct metrics *metrics;     /* NULL: none */
    struct heartbeat *beat;      /* the loop's; NULL: its liveness is not watched */
    struct health_watch *health; /* NULL: health comes from readings alone */
    const struct clock *clk;
    const char *node;
    const char *state_dir; /* holds the journals */
    const char *proc_root; /* NULL: /proc */
    const char *sys_root;  /* NULL: /sys */
    const char *version;
    const struct plugin_config *config;    /* applies where the Device says nothing; NULL: none */
    enum api_publisher resource_publisher; /* who publishes the node's resources */
    /* The link to the kubelet. It serves the kubelet where the agent publishes the resources, and
     * only observes it otherwise. NULL: there is no kubelet; the controller publishes the
     * resources. */
    struct kubelet_link *kubelet;
    struct koord_infos *koordinator; /* writes the cards into koordlet's file; NULL: no such file */
    struct late_binding *slots;      /* makes slices for pods; NULL: none are made */
    struct pod_reader *pods;         /* the reader that `slots` asks for pods */
    const struct cdi_slots *cdi_slots; /* the CDI files of slots; NULL: none are written */
    struct driver_where driver;        /* where containers' device files are; used when serving the
                                          kubelet */
    struct handover_locks *locks;      /* NULL: no other agent can be on this node */
    int64_t resync_ms;                 /* 0: 30 s */
    uint64_t seed;
};

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
