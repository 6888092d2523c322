/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/agent_deps.h"
#include "nodeagent/loop/read_jobs.h"
#include "nodeagent/loop/share_watch.h"
#include "nodeagent/loop/turn.h"

/*
 * What an agent is made of, for agent.c, which runs it, and agent_parts.c, which puts it together.
 * Nobody else includes this.
 */
struct agent {
    struct agent_deps d;
    struct agent_job_env env;
    struct spec_source *spec_source;
    struct reporting *reporting;
    struct cgroup_watch *cgroups; /* NULL: nothing waits for the cgroups of pods */

    /* The rest belongs to the loop's thread. */
    struct rng rng;
    struct sharing_means means;
    struct cards cards;
    struct card_tracks tracks;
    struct recovery recovery;
    struct jobs jobs;
    struct withdrawal withdrawal;
    struct card_jobs card_jobs;
    struct slot_jobs slot_jobs;
    struct read_jobs read_jobs;
    struct share_watch share_watch;
    struct agent_events events;
    struct agent_metrics *metrics;
    struct share_metrics *share_metrics;
    bool kubelet_listed, kubelet_holders; /* news from the kubelet that was not handled yet */
    bool slots_followed; /* the holders of slots are followed: it is this agent that binds them */
    struct turn turn;
};

/* True when this agent serves the kubelet, and not only reads who holds what. */
static inline bool serves_kubelet(const struct agent *a)
{
    return a->d.kubelet && a->d.resource_publisher == API_PUBLISHER_KUBELET;
}

/* done: called from the loop's thread with each job that has come back; news: likewise, with the
 * agent. Borrows deps. */
struct agent *agent_parts_new(const struct agent_deps *d, worker_done_fn *done,
                              kubelet_link_fn *news);
/* NULL allowed; returns NULL. */
struct agent *agent_parts_free(struct agent *a);
