/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler/pod_ask.h"
#include "scheduler/view.h"

/*
 * Which of the nodes that kube-scheduler offers a pod gets, and which of their cards. Between this
 * answer and the Binding kube-scheduler says nothing, so that the choice is made, and assumed, here:
 * one node is kept where cards give shares.
 */

struct choice_refusal {
    const char *node; /* borrowed from the offer */
    char *why;
    bool never; /* no pod that goes makes room: the node is not one for this pod */
};

struct choice {
    const char **kept; /* borrowed names, as kube-scheduler may choose among them */
    size_t n_kept;
    struct choice_refusal *refused;
    size_t n_refused;
};

/* Chooses among the names, and assumes what was chosen (view_assume). Nodes whose cards give no
 * shares are all kept for a pod of whole cards that does not say which (choice_check_unshared), and
 * then no other, so that cards that give shares are spared. Of the others the one is kept that the
 * pod's policy for nodes prefers (HAMi's; binpack by itself), of equals the first. */
void choice_make(struct view *v, const struct pod_ask *a, const char *const *names, size_t n,
                 struct choice *ret);
/* The same for one node, which the pod was promised before. *ret_binding: the annotations that its
 * Binding is to carry, as JSON text; NULL: none, since the node gives no shares. Caller frees.
 * ERR_UNAVAILABLE, ERR_INVALID: it does not fit. */
int choice_renew(struct view *v, const struct pod_ask *a, const char *node, char **ret_binding,
                 struct err *e) MUST_CHECK;
/* Whether the pod fits on a node with these cards, and its quotas allow it. Between view_begin and
 * view_end. ERR_UNAVAILABLE, ERR_INVALID, ERR_TOO_LARGE. */
int choice_check(struct view *v, const struct fraction_node *n, const struct pod_ask *a,
                 struct err *e) MUST_CHECK;
/* Whether the pod may have a node that gives none of its cards in shares, where the kubelet chooses the
 * cards: all of its containers ask for whole cards, no annotation says which, and the node is not
 * HAMi's. Between view_begin and view_end. ERR_INVALID. */
int choice_check_unshared(const struct view *v, const struct pod_ask *a, const char *node,
                          struct err *e) MUST_CHECK;
/* A question is answered in this time and that of one more node, however long a pod takes to place:
 * others wait meanwhile. began_ms: on the real clock. */
#define CHOICE_MS 500
bool choice_has_time(int64_t began_ms);
/* Refuses them all for good, for a pod that cannot be meant. */
void choice_refuse_all(const char *const *names, size_t n, const struct err *e, struct choice *ret);
void choice_done(struct choice *c);
AUTO_DEFINE(choice, struct choice, choice_done)
#define auto_choice AUTO(choice)
