/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/card_track.h"
#include "nodeagent/loop/id_list.h"
#include "nodeagent/loop/jobs.h"

/*
 * The recovery of interrupted changes: which card's is ended next, and what that must not destroy.
 * It goes in rounds: a reading lists the journals, and each card that has one gets a job of its
 * own. The changes that could not be ended are listed in `unended`; a card of that list that no
 * source wants offers nothing until they end. Decisions only; the worker recovers (agent_job.h).
 * The loop's thread only.
 */
struct recovery {
    bool done; /* one round has ended: predecessors' changes have ended, are in `unended`, or are in
                  the hands of jobs that hang */
    bool due;  /* a journal may exist that no attempt will end: the next reading lists them */
    struct unended unended;
    struct recovery_round {
        char (*waiting)[GPU_UUID_BYTES]; /* owned: cards whose job did not begin yet */
        size_t n_waiting;
        size_t n_running;
    } round;
};

/* The facts that recovery decides by. */
struct recovery_facts {
    const struct device_spec *spec;
    const struct jobs *jobs;
    int64_t acked;                 /* withdrawal_acked */
    const struct holders *holders; /* NULL: there is no kubelet */
};

/* True when cards may be recovered now, as far as the node is concerned: before the kubelet's first
 * list none is, since a pod may hold a part that the change left. In a later round each unended
 * card that no source wants must be known to offer nothing. */
bool recovery_may_run(const struct recovery *r, const struct recovery_facts *f);
/* The kubelet has listed its holders: true when that is what the first round waited for, so that a
 * reading is due. Each reading asks for such a list: where the cards cannot be read (cards_read is
 * false) a list is no reason to try again, or the two would follow one another without a pause. */
bool recovery_reads_after_list(const struct recovery *r, const struct recovery_facts *f,
                               bool cards_read);
/* A reading has listed the cards with a journal; `listed` (a READ job) is borrowed. They wait for
 * their jobs, in this round or a new one. Before the first round may run, they count as unended. */
void recovery_found(struct recovery *r, const struct recovery_facts *f,
                    const struct agent_job *listed);
/* The card to recover next; NULL: none can be now. Borrowed until the next call here. */
const char *recovery_next(const struct recovery *r, const struct recovery_facts *f);
/* Sets in the RECOVER job of that card what must not be destroyed, and takes the card out of those
 * that wait. v NULL: the node does not show the card. Adds to *to_seal the devices that the caller
 * has to seal while it runs. */
void recovery_begin(struct recovery *r, const struct recovery_facts *f, const struct card_view *v,
                    struct agent_job *j, struct id_list *to_seal);
/* A RECOVER job has ended. Logs a new reason why it could not end the change. */
void recovery_ended(struct recovery *r, const struct agent_job *j);
/* True while the first round is under way: some cards may be between two layouts. */
bool recovery_is_first(const struct recovery *r);
/* While a vendor's call hangs, the first round counts as ended once every card in it has a running
 * job. Such a card offers nothing meanwhile; cards outside the round stop waiting for it. */
void recovery_leave_hanging(struct recovery *r);

/* Follows a new spec, before the tracks do. A card whose change failed and that the new spec does
 * not list is not attempted again: recovery ends its change. */
void recovery_follow(struct recovery *r, const struct recovery_facts *f,
                     const struct card_tracks *tracks);
/* An attempt at this card ended with this result, a failed one or not. tracked: the spec lists the
 * card. */
void recovery_note(struct recovery *r, const char *uuid, const struct txn_result *result,
                   bool tracked);
/* Records that the status with this number, and with it the kubelet's list, offers nothing of the
 * cards that are withheld. True: that is new for some card, so the holders are to be asked for. */
bool recovery_told(struct recovery *r, const struct recovery_facts *f, int64_t number,
                   int64_t now_mono_ms);

/* The newest status that one of the withheld cards waits for; a card that no status has told of yet
 * waits for `next`. 0: no card is withheld. */
int64_t recovery_number(const struct recovery *r, const struct recovery_facts *f, int64_t next);

void recovery_done(struct recovery *r);
