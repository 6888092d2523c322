/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "kubeclient/informer.h"
#include "scheduler/pod_ask.h"
#include "scheduler/pod_shares.h"

/*
 * What is free on the cards of every node: what the Devices offer, less
 *  - what bound pods have by their records,
 *  - what was decided for pods whose Binding has not been seen yet (assumed),
 *  - what agents say of pods without a record, and of pods that have gone and whose shares they have
 *    not released yet,
 *  - the cards that a Node's annotation cordons, and all of a node that HAMi's device plugin serves.
 *
 * Nothing of it is stored: a process that starts anew knows it as soon as its caches are synced, but
 * for what was assumed. Two who do not know of each other may give the same room to two pods; the
 * agent lets one of them wait (nodeagent/slots/share_place.h). Any thread; one mutex.
 */
struct view;

/* Time for a pod to be bound after its node was chosen; then its shares are free again. And time for a
 * Binding that was written to be seen: only a pod that was made and deleted while the API server
 * could not be watched is never seen. */
#define VIEW_ASSUMED_MS (30 * 1000)
#define VIEW_BOUND_MS   (5 * 60 * 1000)

/* Called when a node may have more room than before, with the view's lock held: must not block. */
typedef void view_grown_fn(void *arg, const char *node);

/* clk outlives it. grown NULL: nobody asks. */
struct view *view_new(const struct clock *clk, view_grown_fn *grown, void *arg);
/* The caches, of the types node_cards_type, node_words_type, pod_shares_type and quota_type. */
struct view_caches {
    struct informer *devices, *nodes, *pods, *quotas;
};
/* Follows them; before they run. They outlive the view's use. */
void view_follow(struct view *v, const struct view_caches *c);
/* In place of caches, for one question: the objects of a cluster that were listed once, of the same
 * types. quotas: with quota_add_index. They outlive the view's use. */
struct view_lists {
    struct store *devices, *nodes, *pods, *quotas;
};
void view_read(struct view *v, const struct view_lists *l);
struct view *view_free(struct view *v);
AUTO_DEFINE_PTR(view, struct view, view_free)
#define auto_view AUTO_PTR(view)

/* --- One decision: from view_begin to view_end nobody else changes the view --- */

/* uid: of the pod that it is about; NULL: of none in particular. Borrowed until view_end. */
void view_begin(struct view *v, const char *uid);
void view_end(struct view *v);
/* The cards of a node, as they are without that pod; NULL: it gives no shares, or is HAMi's.
 * ret_fullness: how full it is, as HAMi counts it (pkg/scheduler/policy/node_policy.go): shares,
 * compute and memory alike, in millionths; NULL: nobody asks. Borrowed until the next call or change,
 * or view_end. */
const struct fraction_node *view_node(struct view *v, const char *node, uint64_t *ret_fullness);
/* The same, without all pods of these uids, which have records, too, and as if agents had released the
 * shares of pods that are gone: what there will be once these have gone as well. */
const struct fraction_node *view_node_without(struct view *v, const char *node,
                                              const char *const *uids, size_t n);
/* True for a node whose cards are HAMi's to give out (scheduler/node_words.h). */
bool view_is_hamis(const struct view *v, const char *node);
/* The number that a card has on its node; below 0: the node has no such card in view_node. */
int64_t view_card_number(const struct view *v, const char *node, const char *uuid);
/* The next node whose agent has yet to release shares of pods that are gone; NULL: there is none. *pos
 * starts at 0. Borrowed. */
const char *view_next_releasing(const struct view *v, size_t *pos);
/* The bound pods with records on a node whose priority is below this one, the lowest first; returns how
 * many. *ret is to be freed; its strings are borrowed until the next change or view_end. */
struct view_pod {
    const char *uid;
    int64_t priority;
};
size_t view_pods_below(struct view *v, const char *node, int64_t priority, struct view_pod **ret);
/* Whether the quotas of its namespace allow the pod these shares. ERR_UNAVAILABLE. */
int view_check_quota(struct view *v, const struct pod_shares *s, struct err *e) MUST_CHECK;
/* The pod has these shares of the node from now on, in place of what was assumed for it before.
 * items_take is emptied. binding: the annotations of its Binding, as JSON text; copied. */
void view_assume(struct view *v, const char *uid, const char *node, struct pod_shares *items_take,
                 const char *binding);
/* The annotations that were assumed for the pod's Binding to this node; the assumption then holds for
 * VIEW_BOUND_MS. NULL: nothing was assumed, or it is too long ago. Caller frees. */
char *view_confirm(struct view *v, const char *uid, const char *node);
/* Nobody knows whether the pod was bound: the assumption holds for VIEW_ASSUMED_MS more. */
void view_doubt(struct view *v, const char *uid, const char *node);
/* What was assumed for the pod on this node (NULL: on whichever) ends. */
void view_forget(struct view *v, const char *uid, const char *node);

/* --- The end of assumptions --- */

/* Called when something is assumed, with the view's lock held: view_expire is to be called when so much
 * time has passed. */
typedef void view_expiry_fn(void *arg, const char *uid, int64_t in_ms);
void view_on_expiry(struct view *v, view_expiry_fn *fn, void *arg);
/* Ends what was assumed for the pod if its time is over. Otherwise, how many milliseconds are left; 0:
 * nothing is assumed any more. */
int64_t view_expire(struct view *v, const char *uid);
