/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * MIGConfig.status: which nodes and profiles use it, and whether its name and aliases clash with
 * another's. Key: the configuration. Written as a merge patch of what differs.
 */
struct controller *migconfig_controller_new(struct context *ctx);

/* --- Pure --- */

/* The input of migconfig_plan: all facts about one configuration. Borrowed. */
struct config_facts {
    const struct object *config;
    const struct object_list *configs;     /* all, oldest first */
    const struct object_list *profiles;    /* all */
    size_t nodes;                          /* number of nodes whose label names it */
    const struct rollout_summary *summary; /* over the nodes that use it, by label or by profile */
    int64_t now_ms;                        /* wall clock */
};

/* The status that follows from the facts. *ret is overwritten (migconfig_status_done). */
void migconfig_plan(const struct config_facts *f, struct migconfig_status *ret);
