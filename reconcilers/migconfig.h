/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * MIGConfig.status: who uses it, and whether its names are its own. Key: the configuration. A merge
 * patch of what differs.
 */
struct controller *migconfig_controller_new(struct context *ctx);

/* --- Pure --- */

/* What is known about one configuration. Borrowed. */
struct config_facts {
    const struct object *config;
    const struct object_list *configs;     /* all, oldest first */
    const struct object_list *profiles;    /* all */
    size_t nodes;                          /* whose label names it */
    const struct rollout_summary *summary; /* of the nodes that use it, by label or profile */
    int64_t now_ms;                        /* wall clock */
};

/* The status that follows. *ret is overwritten (migconfig_status_done). */
void migconfig_plan(const struct config_facts *f, struct migconfig_status *ret);
