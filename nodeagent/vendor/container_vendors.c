/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/container_vendors.h"

#include <string.h>

#include "nodeagent/vendor/vendors.h"

const struct container_vendor *container_vendor_find(const char *name)
{
    const struct vendor_backend *b = vendor_backend_find(name);
    return b ? b->container : NULL;
}

void container_nodes_look(const struct dri_where *w, const char *host_dev_root,
                          const char *const *bus_ids, size_t n, struct container_nodes *ret)
{
    dri_nodes_read(w, host_dev_root, bus_ids, n, &ret->dri);
    for (size_t i = 0; vendor_backends[i]; i++)
        if (vendor_backends[i]->container->read_nodes)
            vendor_backends[i]->container->read_nodes(w->dev_root, ret);
}

bool container_nodes_same_look(const struct container_nodes *a, const struct container_nodes *b)
{
    return memcmp(&a->metax, &b->metax, sizeof(a->metax)) == 0 && dri_nodes_equal(&a->dri, &b->dri);
}
