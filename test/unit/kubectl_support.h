/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubectl/command.h"

/* A model of an API server with nodes whose cards stand as a test says, and a command that asks
 * it. */
extern struct kc *desk_kc;

void desk_set_up(void);
void desk_tear_down(void);

/* A Node with the label pool=a, and its Device of so many H100 cards, whole and unused. */
void desk_node(const char *name, size_t n_cards);
/* Cuts a card (MIG): "1g.10gb@0 2g.20gb@2=ml/train", by first memory slice, with the pod that has
 * the partition. */
void desk_cut(const char *node, size_t card, const char *parts);
/* Gives a card in shares: "40960:50=ml/a 8192:10=ml/b", MiB and percent of each. */
void desk_share(const char *node, size_t card, const char *shares);
/* Gives the node so many MetaX cards more, whole and unused. */
void desk_metax(const char *node, size_t n_cards);
/* Cuts such a card (sGPU): "slot.0:1024:10=ml/a small:2048:20", by alias, with MiB and percent. */
void desk_slice(const char *node, size_t card, const char *slices);
/* The pod has the whole card. */
void desk_hold(const char *node, size_t card, const char *ns, const char *pod);
/* The card is ill, with this reason in its condition Healthy. reason NULL: it has no condition. */
void desk_ill(const char *node, size_t card, const char *reason);
/* So many containers can have the card at a time; cut, each of its parts. */
void desk_replicas(const char *node, size_t card, int64_t replicas);
/* Its agent says that all cards are as its Device's spec wants them. */
void desk_applied(const char *node);
/* A merge patch, in YAML. subresource may be NULL. */
void desk_patch(const struct kc_resource *res, const char *name, const char *subresource,
                const char *yaml);
/* Creates an object. */
void desk_create(const struct kc_resource *res, const char *yaml);
/* A pod ns/NAME, by its spec. node NULL: it waits. */
void desk_pod(const char *name, const char *node, const char *spec);
void desk_pod_status(const char *name, const char *status);
/* An Event of the namespace default, in YAML: all but its kind, and its metadata. */
void desk_event(const char *name, const char *yaml);
/* The controller's Lease, renewed just now. */
void desk_lease(void);
/* From now on lists of this kind are refused; "*": of all; NULL: of none. */
void desk_forbid(const char *plural);
/* From now on no single object of this kind may be read. */
void desk_forbid_get(const char *plural);
/* From now on lists of this kind find no such kind. */
void desk_lack(const char *plural);

/* From now on commands write to a terminal that obeys. */
void desk_terminal(void);
/* The screen is known to have so many columns. */
void desk_columns(size_t n);
/* It has so many rows. */
void desk_rows(size_t n);

/* What a command printed, and its exit code. */
struct desk_answer {
    char *out, *err;
    int code;
};
struct desk_answer desk_cards(enum command_output output, const char *node);
/* at: called when the command begins to watch, for the n-th time; false ends it. */
struct desk_answer desk_cards_watch(enum command_output output, const char *node,
                                    bool (*at)(unsigned n));
struct desk_answer desk_plan(enum command_output output, const char *yaml);
/* About the pod ns/NAME. */
struct desk_answer desk_why(enum command_output output, const char *pod);
/* The pod p's, for a person, is this text, without a warning. */
void desk_expect_why(const char *text);
struct desk_answer desk_history(enum command_output output, const char *node);
struct desk_answer desk_doctor(enum command_output output);
/* The pod of an agent in the namespace cleave-node, Ready, whose container has these arguments (YAML of a
 * list). */
void desk_agent(const char *pod, const char *node, const char *arguments);
/* The pod of one that is not Ready. */
void desk_sick_agent(const char *pod, const char *node);
/* Asks the agents of this namespace; page: what they answer. */
struct desk_answer desk_top(enum command_output output, const char *ns, const char *node,
                            command_page_fn *page);
/* The same, drawn anew at once, until page ends it by desk_end. */
struct desk_answer desk_top_watch(enum command_output output, command_page_fn *page);
/* Ends what a command does, as Ctrl-C does. Any thread. */
void desk_end(void);
void desk_answer_done(struct desk_answer *a);
AUTO_DEFINE(desk_answer, struct desk_answer, desk_answer_done)
#define auto_desk_answer AUTO(desk_answer)
