/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: work that depends on other work, to be launched later.
 *
 * A graph belongs to no context; the work of its nodes does. Guarded by the contexts' lock.
 */
#pragma once

#include <stdbool.h>

#include "sim/cuda.h"

struct work_item;

/* Nodes, in no order; none is in it twice. */
struct node_set {
    struct graph_node **nodes;
    size_t count, room;
};

/* What a node does. It is never changed, so that clones and executable graphs share it. */
struct node_work {
    unsigned int refs;
    struct cuda_context *context; /* NULL: of none */
    struct work_item *item;       /* what a launch submits a copy of; NULL: nothing */
};

struct graph_node {
    struct graph_node *next; /* of its graph, in the order in which they were made */
    struct graph *graph;
    void *handle;
    int type;             /* CU_GRAPH_NODE_TYPE_... */
    struct node_set from; /* what it depends on */
    struct node_work *work;

    /* of whoever walks over the graph */
    bool is_seen;
    struct graph_node *later;
};

struct graph {
    void *handle;
    struct graph_node *nodes, **last;
    size_t count;
    unsigned int captures; /* that add to it */
};

/* A new graph, with a handle; NULL: there is no memory. Its end ends its nodes. */
struct graph *graph_new(void);
void graph_free(struct graph *g);

/* A new node, with a handle, that depends on those of a set; it holds the work, which may be NULL.
 * NULL: there is no memory. */
struct graph_node *graph_add_node(struct graph *g, int type, struct node_work *work,
                                  const struct node_set *from);

/* Ends a node, and the edges from it and to it. */
void graph_remove_node(struct graph_node *node);

/* Marks those nodes, and all that they depend on, as seen, and no others of that graph. */
void graph_see_from(struct graph *g, const struct node_set *nodes);

/* Work of an item, which is the callee's from now on. NULL: there is no memory. */
struct node_work *node_work_new(struct cuda_context *context, struct work_item *item);
struct node_work *node_work_ref(struct node_work *w);
void node_work_unref(struct node_work *w);

/* --- Sets --- */

bool node_set_has(const struct node_set *set, const struct graph_node *node);

/* Adds what is not in it yet. False: there is no memory. */
bool node_set_add(struct node_set *set, struct graph_node *node);
bool node_set_add_all(struct node_set *set, const struct node_set *more);

/* False: it is not in it. */
bool node_set_remove(struct node_set *set, const struct graph_node *node);

/* Leaves it empty, and without memory. */
void node_set_clear(struct node_set *set);
