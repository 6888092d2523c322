/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_graph.h"

#include <stdlib.h>

#include "sim/cuda_graph_memory.h"
#include "sim/cuda_handle.h"

/* --- What nodes do --- */

struct node_work *node_work_new(struct cuda_context *context, struct work_item *item)
{
    struct node_work *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        free(item);
        return NULL;
    }
    *w = (struct node_work){.refs = 1, .context = context, .item = item};
    return w;
}

struct node_work *node_work_ref(struct node_work *w)
{
    if (w != NULL)
        w->refs++;
    return w;
}

void node_work_unref(struct node_work *w)
{
    if (w == NULL || --w->refs > 0)
        return;
    memory_unref(w->memory);
    free(w->item);
    free(w->params);
    free(w);
}

/* --- Graphs --- */

struct graph *graph_new(void)
{
    struct graph *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    g->last = &g->nodes;
    g->handle = handle_new(HANDLE_GRAPH, g);
    if (g->handle != NULL)
        return g;
    free(g);
    return NULL;
}

static void free_node(struct graph_node *node)
{
    handle_end(node->handle);
    if (node->child != NULL)
        graph_free(node->child);
    node_set_clear(&node->from);
    node_work_unref(node->work);
    free(node);
}

void graph_free(struct graph *g)
{
    handle_end(g->handle);
    while (g->nodes != NULL) {
        struct graph_node *node = g->nodes;
        g->nodes = node->next;
        free_node(node);
    }
    free(g);
}

struct graph_node *graph_add_node(struct graph *g, int type, struct node_work *work,
                                  const struct node_set *from)
{
    struct graph_node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    *node = (struct graph_node){.graph = g, .type = type, .work = node_work_ref(work)};
    node->handle = handle_new(HANDLE_NODE, node);
    if (node->handle == NULL || !node_set_add_all(&node->from, from)) {
        free_node(node);
        return NULL;
    }
    *g->last = node;
    g->last = &node->next;
    g->count++;
    return node;
}

static bool clone_node(struct graph_node *node, struct graph *to)
{
    static const struct node_set none;
    struct graph_node *made = graph_add_node(to, node->type, node->work, &none);
    if (made == NULL)
        return false;
    made->origin = node->handle;
    node->later = made;
    if (node->child == NULL)
        return true;
    made->child = graph_clone(node->child);
    if (made->child != NULL)
        made->child->users++;
    return made->child != NULL;
}

static bool clone_edges(const struct graph_node *node)
{
    bool good = true;
    for (size_t i = 0; good && i < node->from.count; i++)
        good = node_set_add(&node->later->from, node->from.nodes[i]->later);
    return good;
}

struct graph *graph_clone(struct graph *g)
{
    struct graph *to = graph_new();
    bool good = to != NULL;
    for (struct graph_node *n = g->nodes; good && n != NULL; n = n->next)
        good = clone_node(n, to);
    for (const struct graph_node *n = g->nodes; good && n != NULL; n = n->next)
        good = clone_edges(n);
    if (good)
        return to;
    if (to != NULL)
        graph_free(to);
    return NULL;
}

struct graph_node *graph_find_copy(const struct graph *clone, const void *handle)
{
    struct graph_node *found = NULL;
    for (struct graph_node *n = clone->nodes; found == NULL && n != NULL; n = n->next) {
        if (n->origin == handle)
            found = n;
        else if (n->child != NULL)
            found = graph_find_copy(n->child, handle);
    }
    return found;
}

bool graph_has_memory(const struct graph *g)
{
    for (const struct graph_node *n = g->nodes; n != NULL; n = n->next) {
        if (n->work != NULL && n->work->memory != NULL)
            return true;
    }
    return false;
}

static void unlink_node(struct graph *g, const struct graph_node *node)
{
    struct graph_node **at = &g->nodes;
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    if (g->last == &node->next)
        g->last = at;
    g->count--;
}

void graph_remove_node(struct graph_node *node)
{
    struct graph *g = node->graph;
    unlink_node(g, node);
    for (struct graph_node *n = g->nodes; n != NULL; n = n->next)
        (void)node_set_remove(&n->from, node);
    free_node(node);
}

static void see(struct graph_node *node, struct graph_node **todo)
{
    if (node->is_seen)
        return;
    node->is_seen = true;
    node->later = *todo;
    *todo = node;
}

void graph_see_from(struct graph *g, const struct node_set *nodes)
{
    struct graph_node *todo = NULL;
    for (struct graph_node *n = g->nodes; n != NULL; n = n->next)
        n->is_seen = false;
    for (size_t i = 0; i < nodes->count; i++)
        see(nodes->nodes[i], &todo);
    while (todo != NULL) {
        const struct graph_node *n = todo;
        todo = n->later;
        for (size_t i = 0; i < n->from.count; i++)
            see(n->from.nodes[i], &todo);
    }
}
