/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/store.h"
#include "partition/resolve.h"
#include "reconcilers/koordinator_link.h"
#include "reconcilers/records.h"

/*
 * One node as all the caches together show it, and what its cards should be because of that. A
 * value of one thread; it holds references, so what it points to stays while it lives.
 */

/* The caches that reconcilers read. Any thread. */
struct caches {
    struct store *nodes, *devices, *profiles, *configs;
    const struct koordinator_link *koordinator; /* NULL: nothing is done for Koordinator */
};

/* Names of indexes that the caches have. */
#define INDEX_MIG_LABEL "mig-label" /* nodes by the value of nvidia.com/mig.config */

struct node_view {
    struct object *node_object, *device_object; /* references; NULL: there is none */
    const struct node_record *node;             /* NULL when there is no Node */
    const struct device_record *device;         /* NULL when there is no Device */
    int64_t generation;                         /* of the Device's spec */
    bool silent;             /* the agent has owed an answer for too long (reconcilers/silence.h) */
    int64_t silent_since_ms; /* wall clock; counts where it is silent */
    enum koordinator_use koordinator;  /* unknown until its Devices are in the cache too */
    struct object *koordinator_object; /* its Device; a reference; NULL: there is none */
    struct object_list profiles;       /* whose nodeSelector matches */
    struct object_list configs;        /* all that can be read, oldest first */
    struct resolve_card *cards;        /* one for each of the Device's cards */
    struct resolve_result result;      /* empty unless node_view_resolve was called */
};

/* Adds the indexes to the stores. Only while they are empty. */
void node_view_add_indexes(const struct caches *c);

/* Reads the Node and the Device of this name; no profiles, no configs. *ret was zeroed. */
void node_view_look(const struct caches *c, const char *name, struct node_view *ret);
/* Adds everything else that speaks about the node, and resolves it when there are both Node and
 * Device. */
void node_view_gather(const struct caches *c, struct node_view *v);
/* Both. */
void node_view_read(const struct caches *c, const char *name, struct node_view *ret);
/* All MIGConfigs that can be read, oldest first. *ret is overwritten. */
void node_view_configs(const struct caches *c, struct object_list *ret);
/* The one that a name means among them: the object of that name, else the oldest that has it as an
 * alias; NULL: none. Borrowed. */
const struct object *node_view_config(const struct object_list *configs, const char *name);
/* Resolves what the view holds (tests fill it by hand). Pure. */
void node_view_resolve(struct node_view *v);

/* How a profile fared on the node; NULL: it does not match the node. Borrowed. */
const struct resolve_outcome *node_view_profile(const struct node_view *v, const char *profile);
/* How the label fared; NULL: there is none. Borrowed. */
const struct resolve_outcome *node_view_label(const struct node_view *v);

void node_view_done(struct node_view *v);
AUTO_DEFINE(node_view, struct node_view, node_view_done)
#define auto_node_view AUTO(node_view)
