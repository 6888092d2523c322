/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/container_vendors.h"

#include <string.h>

#include "nodeagent/container/container_metax.h"
#include "nodeagent/container/container_nvidia.h"

const struct container_vendor container_vendors[] = {
    {
        .name = "metax",
        .cdi_kind = "gpu.cleave.dev/metax",
        .uses_dri = true,
        .read_nodes = container_metax_read_nodes,
        .common_nodes = container_metax_common_nodes,
        .device_nodes = container_metax_device_nodes,
        .device_env = container_metax_device_env,
    },
    {
        .name = "nvidia",
        .cdi_kind = "gpu.cleave.dev/nvidia",
        .common_env = "NVIDIA_VISIBLE_DEVICES=void", /* disables NVIDIA's own hook */
        .mounts_driver = true,
        .has_runtime = true,
        .common_nodes = container_nvidia_common_nodes,
        .device_nodes = container_nvidia_device_nodes,
        .tell_runtime = container_nvidia_tell_runtime,
    },
    {0},
};

const struct container_vendor *container_vendor_find(const char *name)
{
    for (const struct container_vendor *v = container_vendors; name && v->name; v++) {
        if (strcmp(v->name, name) == 0)
            return v;
    }
    return NULL;
}

void container_nodes_look(const struct dri_where *w, const char *host_dev_root,
                          const char *const *bus_ids, size_t n, struct container_nodes *ret)
{
    dri_nodes_read(w, host_dev_root, bus_ids, n, &ret->dri);
    for (const struct container_vendor *v = container_vendors; v->name; v++) {
        if (v->read_nodes)
            v->read_nodes(w->dev_root, ret);
    }
}

bool container_nodes_same_look(const struct container_nodes *a, const struct container_nodes *b)
{
    return memcmp(&a->metax, &b->metax, sizeof(a->metax)) == 0 && dri_nodes_equal(&a->dri, &b->dri);
}
