/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler/pod_ask.h"
#include "scheduler/view.h"

/*
 * Which pods must go so that a pod of higher priority gets its cards. kube-scheduler chooses victims by
 * a node's sums, and asks about the nodes on which it found some. Where they do not suffice, because no
 * single card has the room then, more are named: bound pods with records, of lower priority, the lowest
 * first, and of those only the ones that are needed. About a node whose sums suffice as they are it
 * does not ask, so that nobody goes there.
 *
 * While an agent is about to release what would do, nobody else goes.
 */
struct preempt_node {
    const char *node;  /* borrowed */
    const char **uids; /* of the victims; owned array of borrowed strings */
    size_t n;
    bool hopeless; /* nobody's going makes room for the pod here */
};

/* Completes the victims of one node for a pod of this priority; those that were added come first, the
 * highest priority first. began_ms: of the question (choice_has_time). The strings that are added are
 * borrowed from the view until the next change or view_end; between view_begin and view_end. */
void preempt_complete(struct view *v, const struct pod_ask *a, int64_t priority, int64_t began_ms,
                      struct preempt_node *n);

/* Answers kube-scheduler's question, a JSON text. *ret is a new reference. ERR_PROTOCOL: it is none;
 * ERR_INVALID: the pod cannot be meant, or the extender's configuration lacks nodeCacheCapable. */
int preempt_answer(struct view *v, const char *body, size_t len, json_t **ret,
                   struct err *e) MUST_CHECK;
