/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs.
 *
 * A launch puts all nodes into the stream, one behind the other, in an order that their dependencies allow:
 * a card would run side by side what does not depend on each other. Launches of one executable graph wait for
 * each other.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_graph.h"
#include "sim/cuda_mark.h"

struct exec {
    void *handle;
    unsigned int refs; /* the handle, and launches that are not over */
    uint64_t flags;
    struct graph *graph;       /* its own copy */
    struct graph_node **steps; /* its nodes, and those of its children, in order */
    size_t count;
    struct mark *last; /* the end of its last launch; NULL: there was none */
};

/* Makes a graph executable: INVALID_VALUE for one with a circle, or with memory of which an executable graph
 * is there already. *ret_node: the handle of a node in the circle. */
CUresult exec_new(struct graph *g, uint64_t flags, struct exec **ret, void **ret_node);

/* Ends its handle; it goes with its last launch. */
void exec_end(struct exec *e);

/* Takes what memory it needs. */
CUresult exec_upload(const struct exec *e);

/* Launches it in a stream; in a captured one it becomes a node. */
CUresult exec_launch(struct exec *e, struct stream *s);

/* Makes it do what another graph of the same form does: GRAPH_EXEC_UPDATE_FAILURE. */
CUresult exec_update(struct exec *e, struct graph *g, CUgraphExecUpdateResultInfo *ret);
