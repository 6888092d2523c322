/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/container_vendor.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

void device_nodes_done(struct device_nodes *n)
{
    for (size_t i = 0; i < GPU_MAX_VENDORS && n->own[i].vendor; i++)
        n->own[i].vendor->own->free(n->own[i].files);
    dri_nodes_done(&n->dri);
    *n = (struct device_nodes){0};
}

void *device_nodes_own(const struct device_nodes *n, const struct container_vendor *v)
{
    for (size_t i = 0; i < GPU_MAX_VENDORS && n->own[i].vendor; i++)
        if (n->own[i].vendor == v)
            return n->own[i].files;
    return NULL;
}

void device_paths_add(struct device_paths *l, char *path_take)
{
    assert(path_take && path_take[0] == '/');
    *XPUSH(l->paths, l->n) = path_take;
}

void device_paths_done(struct device_paths *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->paths[i]);
    free(l->paths);
    *l = (struct device_paths){0};
}
