/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/reconcile.h"
#include "reconcilers/standing.h"

/*
 * The ledger of all rollouts: how each profile stands on each node that it matches, which nodes
 * hold a ticket (are in change because of it), and which wait for one. A ticket is given before
 * Device.spec is written, and comes back when the agent says that it is done; a node that failed
 * keeps it, so a bad layout stops at the first nodes. Nothing here is truth: it is rebuilt from the
 * caches (rollout_build) before anything is given.
 *
 * Any thread; one mutex. Every operation is O(1) in the number of nodes but rollout_summary.
 * Memory: about 150 bytes for each pair of profile and node.
 */
struct rollout;

/* How many nodes of a profile may be in change now. */
struct rollout_budget {
    size_t max;
    bool paused;
};

struct rollout *rollout_new(void);
/* Runs `build` once in the life of the ledger; who comes while it runs waits. Call it before
 * anything else of the ledger is used. */
void rollout_build(struct rollout *r, void (*build)(struct rollout *r, void *arg), void *arg);

/* May this node be changed for the profile? True: it holds a ticket now. False: it waits. */
bool rollout_ask(struct rollout *r, const char *profile, const char *node,
                 const struct rollout_budget *budget);
/* Gives a ticket without a look at the budget: the change is under way already. */
void rollout_hold(struct rollout *r, const char *profile, const char *node);
/* Takes the ticket back, and the place in the queue. */
void rollout_settle(struct rollout *r, const char *profile, const char *node);
/* Takes only the place in the queue: the node wants nothing of the profile at the moment. */
void rollout_stop_waiting(struct rollout *r, const char *profile, const char *node);
bool rollout_has_ticket(struct rollout *r, const char *profile, const char *node);
/* Number of nodes that hold one. */
size_t rollout_tickets(struct rollout *r, const char *profile);
/* Enqueues the nodes that wait longest, as many as the budget has room for. */
void rollout_wake(struct rollout *r, const char *profile, const struct rollout_budget *budget,
                  struct wq *nodes);

/* Which spec of a name is spoken of: one that was deleted and made again begins at generation 1, as
 * the one before did. Borrowed. */
struct rollout_edition {
    const char *uid;
    int64_t generation;
};
struct rollout_edition rollout_edition_of(const struct object *o);

/* Notes how this edition of the profile stands on the node. True when that is news; *ret_was is
 * then the phase before (PHASES: it was not known). */
bool rollout_note(struct rollout *r, const char *profile, struct rollout_edition edition,
                  const char *node, const struct standing *s, enum phase *ret_was);
/* The number of nodes that the profile stands on. */
size_t rollout_matched(struct rollout *r, const char *profile);
/* Drops the node wherever `keep` does not hold, ticket included, and adds the profiles that it
 * stood on to out (NULL: nowhere). keep NULL: everywhere. */
void rollout_forget_node(struct rollout *r, const char *node,
                         bool (*keep)(const char *profile, const void *arg), const void *arg,
                         struct wq *out);
/* Drops everything about the profile. */
void rollout_forget_profile(struct rollout *r, const char *profile);

#define ROLLOUT_SAMPLE 16

/* How a profile stands. A plain value; rollout_summary_done. */
struct rollout_summary {
    size_t noted;         /* nodes, with the edition asked for */
    size_t count[PHASES]; /* of these */
    size_t refused;       /* of the failed */
    size_t tickets_of_failed;
    size_t silent;                       /* of those in change: their agents do not answer */
    struct gpuprofile_failure *failures; /* the first failed ones by name, at most ROLLOUT_SAMPLE */
    size_t n_failures;
    struct gpuprofile_failure misfit; /* the first whose refusal is about names or conflicts */
    size_t overridden; /* nodes that are as wanted, or not concerned, where others govern cards */
    struct gpuprofile_failure ceded; /* the first of these */
    struct gpuprofile_failure busy;  /* the first in change; a silent one before all others */
};
void rollout_summary(struct rollout *r, const char *profile, struct rollout_edition edition,
                     struct rollout_summary *ret);
void rollout_summary_done(struct rollout_summary *s);
AUTO_DEFINE(rollout_summary, struct rollout_summary, rollout_summary_done)
#define auto_rollout_summary AUTO(rollout_summary)

/* May the profile's status be written now, one write in gap_ms? 0: yes, and that is noted;
 * otherwise the milliseconds to wait. */
int64_t rollout_pace(struct rollout *r, const char *profile, int64_t now_mono_ms, int64_t gap_ms);

/* NULL allowed; returns NULL. */
struct rollout *rollout_free(struct rollout *r);
AUTO_DEFINE_PTR(rollout, struct rollout, rollout_free)
#define auto_rollout AUTO_PTR(rollout)
