/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/store.h"
#include "partition/resolve.h"
#include "reconcilers/koordinator_link.h"
#include "reconcilers/records/device_record.h"
#include "reconcilers/records/node_record.h"
#include "reconcilers/records/profile_record.h"

/*
 * A snapshot of one node from all caches, with the want of each of its cards. A value of one
 * thread; it holds references, so what it points to lives as long as it does.
 */

/* The caches that reconcilers read. Any thread. */
struct caches {
    struct store *nodes, *devices, *profiles, *configs;
    const struct koordinator_link *koordinator; /* NULL: Koordinator is left alone */
    bool gpushare;                              /* nodes offer gpushare's resources */
};

/* Names of the caches' indexes. */
#define INDEX_MIG_LABEL "mig-label" /* Nodes by the value of nvidia.com/mig.config */

struct node_view {
    struct object *node_object, *device_object; /* references; NULL: no such object */
    const struct node_record *node;             /* NULL when there is no Node */
    const struct device_record *device;         /* NULL when there is no Device */
    int64_t generation;                         /* of the Device's spec (metadata.generation) */
    bool silent; /* the agent has not acknowledged its spec for too long (reconcilers/silence.h) */
    int64_t silent_since_ms;           /* wall clock; valid while silent */
    enum koordinator_use koordinator;  /* UNKNOWN until its Devices are in the cache too */
    struct object *koordinator_object; /* Koordinator's Device; a reference; NULL: none */
    bool gpushare;                     /* the node offers gpushare's resources */
    struct object_list profiles;       /* the profiles whose nodeSelector matches */
    struct object_list configs;        /* all that decode, oldest first */
    struct resolve_card *cards;        /* one for each of the Device's cards */
    struct resolve_result result;      /* empty unless node_view_resolve was called */
};

/* Adds the indexes to the stores, which must still be empty. */
void node_view_add_indexes(const struct caches *c);

/* Reads the Node and the Device of this name, without profiles and configs. *ret was zeroed. */
void node_view_look(const struct caches *c, const char *name, struct node_view *ret);
/* Adds all other objects that concern the node, and resolves it when it has both Node and
 * Device. */
void node_view_gather(const struct caches *c, struct node_view *v);
/* node_view_look and node_view_gather in one. */
void node_view_read(const struct caches *c, const char *name, struct node_view *ret);
/* All MIGConfigs that decode, oldest first. *ret is overwritten. */
void node_view_configs(const struct caches *c, struct object_list *ret);
/* The MIGConfig that `name` means: the object of that name, else the oldest with that alias; NULL:
 * none. Borrowed. */
const struct object *node_view_config(const struct object_list *configs, const char *name);
/* Resolves what the view holds (tests fill it by hand). Pure. */
void node_view_resolve(struct node_view *v);

/* The view as it would be if this profile of it were the only one, resolved. *ret was zeroed. */
void node_view_alone(const struct node_view *v, const char *profile, struct node_view *ret);

/* The outcome of a profile on the node; NULL: the profile does not match the node. Borrowed. */
const struct resolve_outcome *node_view_profile(const struct node_view *v, const char *profile);
/* The outcome of the node's label; NULL: it has none. Borrowed. */
const struct resolve_outcome *node_view_label(const struct node_view *v);

/* The profile of this name, of those that match the node; NULL: it does not. Borrowed. */
const struct object *node_view_profile_object(const struct node_view *v, const char *profile);
/* True when this source brings the configuration to the node. A profile that does not match the node
 * (any more) brings none. */
bool node_view_brings(const struct node_view *v, const struct device_source *source,
                      const struct object *config);

void node_view_done(struct node_view *v);
AUTO_DEFINE(node_view, struct node_view, node_view_done)
#define auto_node_view AUTO(node_view)
