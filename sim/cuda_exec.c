/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_exec.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_event.h"
#include "sim/cuda_graph_memory.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_work.h"

/* --- Memory --- */

static struct graph_memory *memory_of(const struct graph_node *n)
{
    return n->work != NULL ? n->work->memory : NULL;
}

/* The memory that a step allocates; NULL: it does none. */
static struct graph_memory *allocated_by(const struct graph_node *n)
{
    return n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? memory_of(n) : NULL;
}

/* The memory of another graph that a step frees; NULL: it does none. */
static struct graph_memory *freed_by(const struct graph_node *n)
{
    struct graph_memory *m = n->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? memory_of(n) : NULL;
    return m != NULL && !m->frees_itself ? m : NULL;
}

static bool claim_memory(struct graph *g)
{
    for (const struct graph_node *n = g->nodes; n != NULL; n = n->next) {
        if (allocated_by(n) != NULL && allocated_by(n)->has_exec)
            return false;
    }
    for (const struct graph_node *n = g->nodes; n != NULL; n = n->next) {
        if (allocated_by(n) != NULL)
            allocated_by(n)->has_exec = true;
    }
    return true;
}

static void leave_memory(const struct exec *e)
{
    for (size_t i = 0; i < e->count; i++) {
        if (allocated_by(e->steps[i]) != NULL)
            memory_leave_exec(allocated_by(e->steps[i]));
    }
}

/* --- Order --- */

static size_t count_nodes(const struct graph *g)
{
    size_t n = g->count;
    for (const struct graph_node *i = g->nodes; i != NULL; i = i->next)
        n += i->child != NULL ? count_nodes(i->child) : 0;
    return n;
}

static bool is_ready(const struct graph_node *n)
{
    for (size_t i = 0; i < n->from.count; i++) {
        if (!n->from.nodes[i]->is_seen)
            return false;
    }
    return true;
}

static bool put_in_order(struct exec *e, struct graph *g, void **ret_node);

/* As much as can be done in one walk over the nodes. */
static bool put_ready(struct exec *e, const struct graph *g, size_t *left, void **ret_node)
{
    bool good = true;
    for (struct graph_node *n = g->nodes; good && n != NULL; n = n->next) {
        if (n->is_seen || !is_ready(n))
            continue;
        n->is_seen = true;
        --*left;
        e->steps[e->count++] = n;
        if (n->child != NULL)
            good = put_in_order(e, n->child, ret_node);
    }
    return good;
}

static bool put_in_order(struct exec *e, struct graph *g, void **ret_node)
{
    size_t left = g->count;
    for (struct graph_node *n = g->nodes; n != NULL; n = n->next)
        n->is_seen = false;
    while (left > 0) {
        size_t before = left;
        if (!put_ready(e, g, &left, ret_node))
            return false;
        for (const struct graph_node *n = g->nodes; left == before && n != NULL; n = n->next) {
            if (!n->is_seen)
                *ret_node = n->origin;
        }
        if (left == before)
            return false;
    }
    return true;
}

/* --- Life --- */

static void unref(struct exec *e)
{
    if (--e->refs > 0)
        return;
    leave_memory(e);
    graph_free(e->graph);
    mark_unref(e->last);
    free((void *)e->steps);
    free(e);
}

static CUresult prepare(struct exec *e, void **ret_node)
{
    e->steps = calloc(count_nodes(e->graph) + 1, sizeof(struct graph_node *));
    if (e->steps == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!put_in_order(e, e->graph, ret_node))
        return CUDA_ERROR_INVALID_VALUE;
    e->handle = handle_new(HANDLE_EXEC, e);
    if (e->handle == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return claim_memory(e->graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult exec_new(struct graph *g, uint64_t flags, struct exec **ret, void **ret_node)
{
    struct exec *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *e = (struct exec){.refs = 1, .flags = flags, .graph = graph_clone(g)};
    CUresult rc = e->graph != NULL ? prepare(e, ret_node) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS) {
        *ret = e;
        return rc;
    }
    handle_end(e->handle);
    if (e->graph != NULL)
        graph_free(e->graph);
    free((void *)e->steps);
    free(e);
    return rc;
}

void exec_end(struct exec *e)
{
    handle_end(e->handle);
    e->handle = NULL;
    unref(e);
}

/* --- Memory of a launch --- */

static void end_use(const struct exec *e, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (allocated_by(e->steps[i]) != NULL)
            memory_end_use(allocated_by(e->steps[i]));
    }
}

/* All of it is in use before the first bytes are taken: none makes room for the other. */
static CUresult begin_use(const struct exec *e)
{
    CUresult rc = CUDA_SUCCESS;
    for (size_t i = 0; i < e->count; i++) {
        if (allocated_by(e->steps[i]) != NULL)
            memory_begin_use(allocated_by(e->steps[i]));
    }
    for (size_t i = 0; rc == CUDA_SUCCESS && i < e->count; i++) {
        if (allocated_by(e->steps[i]) != NULL)
            rc = memory_take_bytes(allocated_by(e->steps[i]));
    }
    if (rc != CUDA_SUCCESS)
        end_use(e, e->count);
    return rc;
}

CUresult exec_upload(const struct exec *e)
{
    CUresult rc = begin_use(e);
    if (rc == CUDA_SUCCESS)
        end_use(e, e->count);
    return rc;
}

/* --- Launches --- */

/* Items that are not in a stream yet. */
struct batch {
    struct work_item *first, **last;
    bool is_whole; /* false: there was no memory */
};

static void add(struct batch *b, struct work_item *item)
{
    b->is_whole = b->is_whole && item != NULL;
    if (item == NULL)
        return;
    item->next = NULL;
    *b->last = item;
    b->last = &item->next;
}

static void drop(struct batch *b)
{
    while (b->first != NULL) {
        struct work_item *item = b->first;
        b->first = item->next;
        queue_end_item(item);
    }
}

struct free_item {
    struct work_item item;
    struct graph_memory *memory;
};

static void end_free(struct work_item *item)
{
    memory_end_free(((struct free_item *)item)->memory);
}

static struct work_item *new_free(struct graph_memory *m)
{
    struct free_item *f = malloc(sizeof(*f));
    if (f == NULL)
        return NULL;
    *f = (struct free_item){.item = {.kind = WORK_INSTANT, .end = end_free}, .memory = m};
    memory_begin_free(m);
    return &f->item;
}

struct end_item {
    struct work_item item;
    struct exec *exec;
};

static void end_launch(struct work_item *item)
{
    struct exec *e = ((struct end_item *)item)->exec;
    end_use(e, e->count);
    unref(e);
}

/* The launch has begun its use of the memory. */
static struct work_item *new_end(struct exec *e)
{
    struct end_item *i = malloc(sizeof(*i));
    if (i == NULL) {
        end_use(e, e->count);
        return NULL;
    }
    *i = (struct end_item){.item = {.kind = WORK_INSTANT, .end = end_launch}, .exec = e};
    e->refs++;
    return &i->item;
}

static struct work_item *copy_item(const struct work_item *item)
{
    struct work_item *copy = malloc(item->bytes);
    if (copy != NULL)
        memcpy(copy, item, item->bytes);
    return copy;
}

static void add_event(struct batch *b, const struct graph_node *n)
{
    struct work_item *item = NULL;
    if (n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        add(b, event_record_item(n->work->event));
    else if (!event_wait_item(n->work->event, &item) || item != NULL)
        add(b, item);
}

/* Memory is freed by the first node that does. */
static void add_step(struct batch *b, const struct graph_node *n)
{
    if (freed_by(n) != NULL && memory_is_given(freed_by(n)))
        add(b, new_free(freed_by(n)));
    else if (n->work != NULL && n->work->event != NULL)
        add_event(b, n);
    else if (n->work != NULL && n->work->item != NULL)
        add(b, copy_item(n->work->item));
}

/* What an earlier launch gave to the program, and it has not freed. */
static void free_given(const struct exec *e, struct batch *b)
{
    for (size_t i = 0; i < e->count; i++) {
        struct graph_memory *m = allocated_by(e->steps[i]);
        if (m != NULL && memory_is_given(m))
            add(b, new_free(m));
    }
}

static bool add_mark(struct exec *e, struct batch *b)
{
    struct mark *m = mark_new();
    add(b, m != NULL ? mark_record_item(m) : NULL);
    if (!b->is_whole) {
        mark_unref(m);
        return false;
    }
    mark_unref(e->last);
    e->last = m;
    return true;
}

static void give_memory(const struct exec *e)
{
    for (size_t i = 0; i < e->count; i++) {
        struct graph_memory *m = allocated_by(e->steps[i]);
        if (m != NULL && !m->frees_itself)
            memory_give(m);
    }
}

static bool fill(struct exec *e, struct batch *b)
{
    struct work_item *end = new_end(e);
    if (end == NULL)
        return false;
    if (e->last != NULL)
        add(b, mark_wait_item(e->last));
    free_given(e, b);
    for (size_t i = 0; i < e->count; i++)
        add_step(b, e->steps[i]);
    add(b, end);
    return add_mark(e, b);
}

static CUresult submit(struct exec *e, struct stream *s)
{
    struct batch b = {.last = &b.first, .is_whole = true};
    if (!fill(e, &b)) {
        drop(&b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    give_memory(e);
    return work_submit_all(s, b.first);
}

static CUresult check_event(const struct graph_node *n, const struct stream *s)
{
    return n->work != NULL && n->work->event != NULL
               ? event_check(n->work->event, s, n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
               : CUDA_SUCCESS;
}

/* Assumed: kernels of other contexts than the stream's are not launched from here. */
static CUresult check(const struct exec *e, const struct stream *s)
{
    bool frees = (e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    for (size_t i = 0; i < e->count; i++) {
        const struct graph_node *n = e->steps[i];
        if (n->type == CU_GRAPH_NODE_TYPE_KERNEL && n->work->context != s->work->context)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (allocated_by(n) != NULL && memory_is_given(allocated_by(n)) && !frees)
            return CUDA_ERROR_INVALID_VALUE;
        if (freed_by(n) != NULL && !memory_is_given(freed_by(n)))
            return CUDA_ERROR_INVALID_VALUE;
        CUresult rc = check_event(n, s);
        if (rc != CUDA_SUCCESS)
            return rc;
    }
    return CUDA_SUCCESS;
}

/* As a child of the graph that is captured, which has no memory. */
static CUresult capture(const struct exec *e, struct stream *s)
{
    struct graph_node *node = NULL;
    if (graph_has_memory(e->graph))
        return capture_refuse_with(s, CUDA_ERROR_NOT_SUPPORTED);
    struct graph *child = graph_clone(e->graph);
    if (child == NULL)
        return capture_refuse_with(s, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult rc = capture_add_node(s, CU_GRAPH_NODE_TYPE_GRAPH, NULL, &node);
    if (rc != CUDA_SUCCESS) {
        graph_free(child);
        return rc;
    }
    node->child = child;
    child->users++;
    return rc;
}

CUresult exec_launch(struct exec *e, struct stream *s)
{
    if (s->capture != NULL)
        return capture(e, s);
    CUresult rc = capture_check_legacy(s);
    if (rc == CUDA_SUCCESS)
        rc = s->work->error;
    if (rc == CUDA_SUCCESS)
        rc = check(e, s);
    if (rc == CUDA_SUCCESS)
        rc = begin_use(e);
    return rc == CUDA_SUCCESS ? submit(e, s) : rc;
}
