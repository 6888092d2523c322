/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"
#include "reconcilers/rollout.h"
#include "reconcilers/survey.h"

/*
 * What the controller will say of one profile of the file: its own functions (reconcilers/survey.h,
 * standing.h, gpuprofile.h), asked about each node as it stands when the file is applied. A value
 * of one thread.
 */

struct profile_verdict {
    bool refused;           /* it is rejected, or has no node */
    char *reason, *message; /* of the condition that says so, or that others govern all its cards;
                             * NULL: neither */
};

struct profile_judge {
    struct object *profile; /* a reference */
    struct survey survey;
    struct rollout *standings;
};

/* Begins with a profile, whose reference it takes. *ret is overwritten. */
void profile_judge_begin(struct object *profile_take, struct profile_judge *ret);
/* Adds a node. v was resolved, and has Node and Device. */
void profile_judge_add(struct profile_judge *j, const struct node_view *v);
/* The verdict, once all nodes were added. nodes: all of the cluster. *ret is overwritten. */
void profile_judge_end(const struct profile_judge *j, struct store *nodes,
                       struct profile_verdict *ret);
void profile_judge_done(struct profile_judge *j);
void profile_verdict_done(struct profile_verdict *v);
