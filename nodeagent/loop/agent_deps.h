/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"

#include "kubeclient/informer.h"
#include "kubeclient/recorder.h"
#include "nodeagent/change/transaction.h"
#include "nodeagent/health/health_watch.h"
#include "nodeagent/loop/handover_locks.h"
#include "nodeagent/loop/jobs.h"
#include "nodeagent/loop/kubelet_link.h"
#include "nodeagent/loop/status_writer.h"
#include "nodeagent/loop/worker.h"
#include "nodeagent/report/koord_infos.h"
#include "nodeagent/slots/late_binding.h"
#include "nodeagent/telemetry/sampler.h"
#include "service/metrics.h"

/* The parts that an agent is given; all borrowed. */
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
    bool koordinator_shares;               /* shares are offered for Koordinator's words, too */
    /* The link to the kubelet. It serves the kubelet where the agent publishes the resources, and
     * only observes it otherwise. NULL: there is no kubelet; the controller publishes the
     * resources. */
    struct kubelet_link *kubelet;
    struct koord_infos *koordinator; /* writes the cards into koordlet's file; NULL: no such file */
    struct sampler *telemetry;       /* gets the cards and their holders; NULL: off */
    struct late_binding *slots;      /* makes slices for pods; NULL: none are made */
    struct pod_reader *pods;         /* the reader that `slots` asks for pods */
    const struct cdi_slots *cdi_slots; /* the CDI files of slots; NULL: none are written */
    struct share_folders
        *share_folders;  /* of containers with limited shares; NULL: none are made */
    const char *limiter; /* the folder of the host with the limiter's libraries; NULL: it is not
                            installed, and no share is limited */
    const char
        *cgroup_root; /* the kubelet's (pod_cgroup.h), for limits of the driver; NULL: there are
                                none */
    struct driver_where driver;   /* where containers' device files are; used when serving the
                                          kubelet */
    struct handover_locks *locks; /* NULL: no other agent can be on this node */
    int64_t resync_ms;            /* between two readings of the node; 0: 30 s */
    uint64_t seed;
};
