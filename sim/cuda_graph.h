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
    void *params;                 /* of a kernel (cuda_graph_items.h); else NULL */
    struct graph_memory *memory;  /* that it allocates or frees; else NULL */
    CUevent event;                /* that it records, or waits for; else NULL */
};

struct graph_node {
    struct graph_node *next; /* of its graph, in the order in which they were made */
    struct graph *graph;
    void *handle;
    int type;             /* CU_GRAPH_NODE_TYPE_... */
    struct node_set from; /* what it depends on */
    struct node_work *work;
    struct graph *child; /* of a child's node: its own copy */
    void *origin;        /* in a clone: the handle of what it is a copy of */

    /* of whoever walks over the graph */
    bool is_seen;
    struct graph_node *later; /* seen and to be looked at; its copy; its counterpart */
};

struct graph {
    void *handle;
    struct graph_node *nodes, **last;
    size_t count;
    unsigned int users; /* captures that add to it, and the node whose child it is */
};

/* A new graph, with a handle; NULL: there is no memory. Its end ends its nodes. */
struct graph *graph_new(void);
void graph_free(struct graph *g);

/* A new node, with a handle, that depends on those of a set; it holds the work, which may be NULL.
 * NULL: there is no memory. */
struct graph_node *graph_add_node(struct graph *g, int type, struct node_work *work,
                                  const struct node_set *from);

/* A copy, whose children are copies; NULL: there is no memory. */
struct graph *graph_clone(struct graph *g);

/* The copy of a node in a clone, or in its children; NULL: there is none. */
struct graph_node *graph_find_copy(const struct graph *clone, const void *handle);

/* Does it have a node that allocates or frees memory? */
bool graph_has_memory(const struct graph *g);

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
