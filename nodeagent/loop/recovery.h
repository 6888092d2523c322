/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/card_track.h"
#include "nodeagent/loop/id_list.h"
#include "nodeagent/loop/jobs.h"

/*
 * The recovery of interrupted changes: when a reading may recover them, and what it must not
 * destroy. The changes that recovery could not end are listed in `unended`; a card of that list that
 * no source wants offers nothing until they end. Decisions only; the worker recovers (agent_job.h).
 * The loop's thread only.
 */
struct recovery {
    bool done; /* once: predecessors' interrupted changes have ended, or are in `unended` */
    bool due;  /* a journal may exist that no attempt will end */
    struct unended unended;
};

/* What others have learned of the offer. */
struct recovery_facts {
    const struct device_spec *spec;
    const struct jobs *jobs;
    int64_t acked;                 /* number of the newest acknowledged status; 0: none */
    const struct holders *holders; /* NULL: there is no kubelet */
};

/* True when the next reading may recover: it goes through all journals, so each unended card that
 * no source wants must be known to offer nothing. Before the kubelet's first list nothing is
 * recovered: a pod may hold a part that the change left. */
bool recovery_may_run(const struct recovery *r, const struct recovery_facts *f);
/* Sets in a READ job that recovers what must not be destroyed. Adds to *withheld the devices that
 * the caller has to seal while it runs. */
void recovery_guard(const struct recovery *r, const struct recovery_facts *f,
                    const struct cards *cards, struct agent_job *j, struct id_list *withheld);
/* A recovery went through all journals: takes over its list of those that it could not end. Logs
 * each new reason. */
void recovery_take(struct recovery *r, struct unended *found);

/* Follows a new spec, before the tracks do. A card whose change failed and that the new spec does
 * not list is not attempted again: recovery ends its change. */
void recovery_follow(struct recovery *r, const struct recovery_facts *f,
                     const struct card_tracks *tracks);
/* An attempt at this card ended with this result, a failed one or not. tracked: the spec lists the card. */
void recovery_note(struct recovery *r, const char *uuid, const struct txn_result *result,
                   bool tracked);
/* Records that the status with this number, and with it the kubelet's list, offers nothing of the
 * cards that are withheld. True: that is new for some card, so the holders are to be asked for. */
bool recovery_told(struct recovery *r, const struct recovery_facts *f, int64_t number,
                   int64_t now_mono_ms);

void recovery_done(struct recovery *r);
