/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_capture.h"

#include <stdlib.h>

/* --- Validity --- */

CUresult capture_invalidate(struct capture *c, CUresult rc)
{
    bool was_valid = c->mode.is_valid;
    c->mode.is_valid = false;
    return was_valid ? rc : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult capture_refuse_with(const struct stream *s, CUresult rc)
{
    return capture_invalidate(s->capture, rc);
}

CUresult capture_refuse(const struct stream *s)
{
    return capture_refuse_with(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* --- Streams --- */

static void forget_stream(struct stream *s);

static void enter_stream(struct stream *s, struct capture *c)
{
    s->capture = c;
    s->end_capture = forget_stream;
    s->tail = (struct node_set){0};
    queue_hold(s);
}

static void leave_stream(struct stream *s)
{
    s->capture = NULL;
    node_set_clear(&s->tail);
    free(s->listed);
    s->listed = NULL;
    queue_let_go(s);
}

/* One of its streams, of whichever context; NULL: there is none. */
static struct stream *find_stream(const struct capture *c)
{
    for (struct work *w = queue_first(); w != NULL; w = w->next) {
        for (struct stream *s = w->streams; s != NULL; s = s->next) {
            if (s->capture == c)
                return s;
        }
    }
    return NULL;
}

/* --- Beginning and ending --- */

CUresult capture_begin(struct stream *s, int mode, struct graph *g, const struct node_set *from)
{
    static uint64_t last_id;
    struct capture *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (struct capture){.refs = 1,
                          .graph = g != NULL ? g : graph_new(),
                          .is_graph_mine = g == NULL,
                          .origin = s,
                          .id = ++last_id,
                          .mode = {.thread = cuda_thread(), .mode = mode, .is_valid = true}};
    if (c->graph == NULL) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture_mode_begin(&c->mode);
    c->graph->users++;
    enter_stream(s, c);
    return node_set_add_all(&s->tail, from) ? CUDA_SUCCESS
                                            : capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
}

static void unref(struct capture *c)
{
    if (--c->refs == 0)
        free(c);
}

/* All that other streams did has to be before what the first one does next. */
static bool is_joined(const struct capture *c)
{
    graph_see_from(c->graph, &c->origin->tail);
    for (const struct work *w = queue_first(); w != NULL; w = w->next) {
        for (const struct stream *s = w->streams; s != NULL; s = s->next) {
            for (size_t i = 0; s->capture == c && i < s->tail.count; i++) {
                if (!s->tail.nodes[i]->is_seen)
                    return false;
            }
        }
    }
    return true;
}

/* Takes all streams out of it. The graph goes with one that gives none. */
static void end(struct capture *c, bool gives_graph)
{
    struct stream *s;
    capture_mode_end(&c->mode);
    while ((s = find_stream(c)) != NULL)
        leave_stream(s);
    c->origin = NULL;
    c->graph->users--;
    if (!gives_graph && c->is_graph_mine)
        graph_free(c->graph);
    c->graph = NULL;
    unref(c);
}

/* Assumed: the order of these checks, and that to end it in another stream invalidates it. */
CUresult capture_end(struct stream *s, struct graph **ret)
{
    struct capture *c = s->capture;
    *ret = NULL;
    if (c == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->mode.mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->mode.thread != cuda_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (c->origin != s)
        return capture_refuse_with(s, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CUresult rc = CUDA_SUCCESS;
    if (!c->mode.is_valid)
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(c))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (rc == CUDA_SUCCESS)
        *ret = c->graph;
    end(c, rc == CUDA_SUCCESS);
    return rc;
}

/* Assumed: the capture ends with the stream in which it began, and is invalid without another one. */
static void forget_stream(struct stream *s)
{
    struct capture *c = s->capture;
    if (c == NULL)
        return;
    c->mode.is_valid = false;
    if (c->origin == s)
        end(c, /* gives_graph= */ false);
    else
        leave_stream(s);
}

/* --- Nodes --- */

CUresult capture_add_node(struct stream *s, int type, struct node_work *work,
                          struct graph_node **ret)
{
    struct capture *c = s->capture;
    if (!c->mode.is_valid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct graph_node *node = graph_add_node(c->graph, type, work, &s->tail);
    s->tail.count = 0;
    if (node == NULL || !node_set_add(&s->tail, node))
        return capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
    if (ret != NULL)
        *ret = node;
    return CUDA_SUCCESS;
}

CUresult capture_add(struct stream *s, struct work_item *item)
{
    if (item->bytes == 0) {
        queue_end_item(item);
        return capture_refuse(s);
    }
    int type = item->node_type;
    struct node_work *work = node_work_new(s->work->context, item);
    if (work == NULL)
        return capture_refuse_with(s, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult rc = capture_add_node(s, type, work, NULL);
    node_work_unref(work);
    return rc;
}

/* --- Events --- */

CUresult capture_record(struct stream *s, struct captured *ret)
{
    struct capture *c = s->capture;
    if (!c->mode.is_valid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *ret = (struct captured){.capture = c};
    c->refs++;
    if (node_set_add_all(&ret->nodes, &s->tail))
        return CUDA_SUCCESS;
    capture_drop_event(ret);
    return capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
}

void capture_drop_event(struct captured *e)
{
    if (e->capture == NULL)
        return;
    unref(e->capture);
    node_set_clear(&e->nodes);
    *e = (struct captured){0};
}

/* Both captures would be one: neither can go on. */
static CUresult refuse_merge(const struct stream *s, struct capture *c)
{
    (void)capture_invalidate(c, CUDA_SUCCESS);
    return capture_refuse_with(s, CUDA_ERROR_STREAM_CAPTURE_MERGE);
}

/* Assumed: of a capture that has ended there is nothing to wait for. */
CUresult capture_join(struct stream *s, const struct captured *e)
{
    struct capture *c = e->capture;
    if (c->origin == NULL)
        return s->capture != NULL ? capture_refuse_with(s, CUDA_ERROR_CAPTURED_EVENT)
                                  : CUDA_ERROR_CAPTURED_EVENT;
    if (s->capture != NULL && s->capture != c)
        return refuse_merge(s, c);
    if (!c->mode.is_valid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s == &s->work->legacy)
        return capture_invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (s->capture == NULL)
        enter_stream(s, c);
    return node_set_add_all(&s->tail, &e->nodes) ? CUDA_SUCCESS
                                                 : capture_invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
}
