/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "sim/cuda_graph.h"

bool node_set_has(const struct node_set *set, const struct graph_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] == node)
            return true;
    }
    return false;
}

static bool grow(struct node_set *set)
{
    size_t room = set->room > 0 ? set->room * 2 : 4;
    struct graph_node **more = reallocarray(set->nodes, room, sizeof(struct graph_node *));
    if (more == NULL)
        return false;
    set->nodes = more;
    set->room = room;
    return true;
}

bool node_set_add(struct node_set *set, struct graph_node *node)
{
    if (node_set_has(set, node))
        return true;
    if (set->count == set->room && !grow(set))
        return false;
    set->nodes[set->count++] = node;
    return true;
}

bool node_set_add_all(struct node_set *set, const struct node_set *more)
{
    bool good = true;
    for (size_t i = 0; good && i < more->count; i++)
        good = node_set_add(set, more->nodes[i]);
    return good;
}

bool node_set_remove(struct node_set *set, const struct graph_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] != node)
            continue;
        set->nodes[i] = set->nodes[--set->count];
        return true;
    }
    return false;
}

void node_set_clear(struct node_set *set)
{
    free(set->nodes);
    *set = (struct node_set){0};
}
