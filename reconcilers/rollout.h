/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/reconcile.h"
#include "reconcilers/standing.h"

/*
 * The ledger of all rollouts: the standing of each profile on each node that it matches, the nodes
 * that hold a ticket (they are changed because of the profile), and the nodes that wait for one. A
 * ticket is given before Device.spec is written. It is returned when the agent has applied what the
 * spec orders for the profile and the Node shows the resources. A node that failed keeps its
 * ticket, so a bad layout stops at the first nodes. The ledger is a cache: it is rebuilt from the
 * informers' caches (rollout_build) before the first ticket is given.
 *
 * Any thread; one mutex. Every operation is O(1) in the number of nodes, except rollout_summary.
 * Memory: about 150 bytes for each pair of profile and node.
 */
struct rollout;

/* How many nodes of a profile may be in change at a time: its spec.rollout.maxUnavailable and
 * spec.paused, read by the caller (budget_of in node_ledger.c, wake in gpuprofile.c) at each call.
 * The ledger keeps no copy. max is 0 when maxUnavailable cannot be read. */
struct rollout_budget {
    size_t max;
    bool paused;
};

struct rollout *rollout_new(void);
/* Runs `build` once in the life of the ledger; other callers wait until it has ended. Call it
 * before anything else of the ledger is used. */
void rollout_build(struct rollout *r, void (*build)(struct rollout *r, void *arg), void *arg);

/* True: the node holds a ticket of the profile and may be changed. False: it waits in the queue. */
bool rollout_ask(struct rollout *r, const char *profile, const char *node,
                 const struct rollout_budget *budget);
/* Gives a ticket regardless of the budget, for a change that is already under way. */
void rollout_force_ticket(struct rollout *r, const char *profile, const char *node);
/* Takes back the node's ticket and its position in the queue. */
void rollout_settle(struct rollout *r, const char *profile, const char *node);
/* Takes back only its position in the queue, for a node that needs no change for the profile
 * now. */
void rollout_stop_waiting(struct rollout *r, const char *profile, const char *node);
bool rollout_has_ticket(struct rollout *r, const char *profile, const char *node);
/* Number of nodes that hold a ticket of the profile. */
size_t rollout_tickets(struct rollout *r, const char *profile);
/* Enqueues the nodes that have waited longest, as many as the budget has room for. */
void rollout_wake(struct rollout *r, const char *profile, const struct rollout_budget *budget,
                  struct wq *nodes);

/* One edition of a profile's spec. The uid is needed because a profile that was deleted and created
 * again begins at generation 1 again. Borrowed. */
struct rollout_edition {
    const char *uid;
    int64_t generation;
};
struct rollout_edition rollout_edition_of(const struct object *o);

/* Notes the standing of this edition of the profile on the node. Returns true when the standing
 * changed; *ret_was is then the phase before (PHASES: it was unknown). */
bool rollout_note(struct rollout *r, const char *profile, struct rollout_edition edition,
                  const char *node, const struct standing *s, enum phase *ret_was);
/* Number of nodes with a noted standing of the profile. */
size_t rollout_matched(struct rollout *r, const char *profile);
/* Drops the node from every profile for which `keep` returns false, with its ticket, and adds these
 * profiles to out (NULL: to nothing). keep NULL: from all profiles. */
void rollout_forget_node(struct rollout *r, const char *node,
                         bool (*keep)(const char *profile, const void *arg), const void *arg,
                         struct wq *out);
/* Drops everything about the profile. */
void rollout_forget_profile(struct rollout *r, const char *profile);

#define ROLLOUT_SAMPLE 16

/* The profile over all nodes. A plain value; rollout_summary_done. */
struct rollout_summary {
    size_t noted;         /* nodes noted with the requested edition */
    size_t n_cards;       /* that these nodes had when they were noted */
    size_t count[PHASES]; /* of the noted nodes, by phase */
    size_t refused;       /* of the failed ones: the want itself was refused */
    size_t tickets_of_failed;
    size_t silent; /* of the changing ones: the agent does not answer */
    /* the first failed nodes by name, at most ROLLOUT_SAMPLE */
    struct gpuprofile_failure *failures;
    size_t n_failures;
    struct gpuprofile_failure misfit; /* the first one refused for names or conflicts */
    /* up-to-date or overridden nodes where other sources govern some of the cards */
    size_t overridden;
    struct gpuprofile_failure ceded; /* the first of the overridden */
    size_t rounded; /* other up-to-date nodes where a partition's name was rounded */
    struct gpuprofile_failure first_rounded;
    /* the first changing one; one with a silent agent comes first */
    struct gpuprofile_failure busy;
};
void rollout_summary(struct rollout *r, const char *profile, struct rollout_edition edition,
                     struct rollout_summary *ret);
void rollout_summary_done(struct rollout_summary *s);
AUTO_DEFINE(rollout_summary, struct rollout_summary, rollout_summary_done)
#define auto_rollout_summary AUTO(rollout_summary)

/* Limits status writes of a profile to one in gap_ms. 0: write now, the time is noted; otherwise
 * the milliseconds to wait. */
int64_t rollout_pace(struct rollout *r, const char *profile, int64_t now_mono_ms, int64_t gap_ms);

/* NULL allowed; returns NULL. */
struct rollout *rollout_free(struct rollout *r);
AUTO_DEFINE_PTR(rollout, struct rollout, rollout_free)
#define auto_rollout AUTO_PTR(rollout)
