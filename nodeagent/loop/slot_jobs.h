/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/card_track.h"
#include "nodeagent/loop/cards.h"
#include "nodeagent/loop/jobs.h"
#include "nodeagent/loop/spec_source.h"
#include "nodeagent/slots/cgroup_watch.h"
#include "nodeagent/slots/late_binding.h"

/*
 * Slots on the cards as they are known now: which cards may get a new slice for a pod, and the jobs
 * that bind and release slots. late_binding.h decides which slot; this module joins that with the
 * spec, the cards and what is under way on them. The loop's thread only.
 */
struct slot_jobs {
    /* Borrowed. */
    const struct clock *clk;
    struct late_binding *slots;         /* NULL: no slices are made for pods; nothing here works */
    struct kubelet_link *kubelet;       /* grants the slots; never NULL with `slots` */
    const struct cdi_slots *cdi_slots;  /* the CDI files of slots; NULL: none are written */
    const struct plugin_config *config; /* how cards are shared where the spec says nothing; NULL */
    const struct sharing_means *means;
    struct cards *cards;
    const struct spec_source *spec_source;
    const struct card_tracks *tracks;
    const struct jobs *jobs;
    const struct unended *unended;
    struct cgroup_watch *cgroups; /* NULL: nothing waits for the cgroups of pods */
};

/* True when new slices are made on the card: it is as wanted, not ill, and no change is under way
 * on it. t NULL: the spec does not list the card; want NULL: the same. Pure. */
bool slot_jobs_is_open(const struct gpu_card *card, const struct device_want *want,
                       const struct card_track *t, const struct unended *unended);

/* Asks whether the agent may read pods, if some card makes slices for pods: once, and again from
 * time to time while the API server refuses. */
void slot_jobs_ask_right(const struct slot_jobs *s);
/* The next job for slots, BIND or RELEASE; NULL: none may begin now. Jobs for different slots run
 * side by side when they touch different cards: those that get a slice, and those that have or may
 * have an earlier one. Nothing is bound on a card that is due for an attempt, since it is not known
 * yet what that attempt destroys. The caller owns the job, and seals a binding's slots. */
struct agent_job *slot_jobs_next(const struct slot_jobs *s, const struct agent_job_env *env,
                                 void *owner);
/* Takes the result of such a job, and its card. True: the cards have to be read again. */
bool slot_jobs_end(const struct slot_jobs *s, struct agent_job *j);
/* All cards were read: binds anew the slots whose slices another program removed. Until then their
 * CDI files name slices that are gone. */
void slot_jobs_rebind_lost(const struct slot_jobs *s);
