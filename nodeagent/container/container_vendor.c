/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/container_vendor.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

void container_nodes_done(struct container_nodes *n)
{
    device_nodes_done(&n->nvidia);
    dri_nodes_done(&n->dri);
}

void node_list_add(struct node_list *l, char *path_take)
{
    assert(path_take && path_take[0] == '/');
    *XPUSH(l->paths, l->n) = path_take;
}

void node_list_done(struct node_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->paths[i]);
    free(l->paths);
    *l = (struct node_list){0};
}
