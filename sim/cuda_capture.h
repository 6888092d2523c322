/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: streams whose work becomes nodes of a graph, instead of being done.
 *
 * What a capture does not allow invalidates it, as the driver does: nothing more can be captured then, and
 * its end gives no graph. Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_capture_mode.h"
#include "sim/cuda_queue.h"

struct capture {
    struct capture_mode mode;
    unsigned int refs; /* as long as it lasts, and of events that were recorded in it */
    struct graph *graph;
    bool is_graph_mine;    /* else the program's, which was there before */
    struct stream *origin; /* NULL: it has ended */
    uint64_t id;
};

/* What an event was that was recorded in a captured stream. */
struct captured {
    struct capture *capture;
    struct node_set nodes;
};

/* --- Beginning and ending one --- */

/* Begins one in a stream. A graph of the program's comes with what the first node depends on; NULL: a
 * new one. */
CUresult capture_begin(struct stream *s, int mode, struct graph *g, const struct node_set *from);

/* Ends it, whether it gives a graph or not, unless it is another thread's or began in another stream. */
CUresult capture_end(struct stream *s, struct graph **ret);

/* --- What happens meanwhile --- */

/* Adds an item, which is the callee's from now on, to the graph of a captured stream. */
CUresult capture_add(struct stream *s, struct work_item *item);

/* Adds a node, whose work it holds. */
CUresult capture_add_node(struct stream *s, int type, struct node_work *work,
                          struct graph_node **ret);

/* An event is recorded in a captured stream. The callee keeps it up to capture_drop_event. */
CUresult capture_record(struct stream *s, struct captured *ret);
void capture_drop_event(struct captured *e);

/* A stream waits for such an event, and is captured from now on. */
CUresult capture_join(struct stream *s, const struct captured *e);

/* A captured stream was to do what cannot be captured: UNSUPPORTED. INVALIDATED from then on. */
CUresult capture_refuse(const struct stream *s);

/* The same with another code. */
CUresult capture_refuse_with(const struct stream *s, CUresult rc);
CUresult capture_invalidate(struct capture *c, CUresult rc);

/* --- What is not to be done while something is captured --- */

/* To put work into the legacy stream while a blocking stream is captured: IMPLICIT. */
bool capture_bars_legacy(const struct stream *s);
CUresult capture_check_legacy(const struct stream *s);

/* To ask how far a stream, or a context, is, or wait for it. */
CUresult capture_check_wait(const struct stream *s);
CUresult capture_check_context(const struct cuda_context *context);
