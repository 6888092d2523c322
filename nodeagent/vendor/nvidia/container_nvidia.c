/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/container_nvidia.h"

#include "base/sb.h"
#include "base/xalloc.h"

/* The folder in which NVIDIA's runtime looks for the list, one file per device (server.go:
 * deviceListAsVolumeMountsContainerPathRoot). */
#define VOLUME_LIST "/var/run/nvidia-container-devices"
#define LIST_BYTES  ((size_t)1 << 20)

static void add_common_nodes(const struct container_nodes *n, struct node_list *ret)
{
    const struct device_nodes *nodes = &n->nvidia;
    ret->host_root = nodes->host_dev_root ? nodes->host_dev_root : "";
    if (nodes->ctl)
        node_list_add(ret, xstrdup("/dev/nvidiactl"));
    if (nodes->uvm)
        node_list_add(ret, xstrdup("/dev/nvidia-uvm"));
    if (nodes->uvm_tools)
        node_list_add(ret, xstrdup("/dev/nvidia-uvm-tools"));
    if (nodes->modeset)
        node_list_add(ret, xstrdup("/dev/nvidia-modeset"));
}

static int add_caps(const struct device_nodes *nodes, const struct entry_device *d,
                    struct node_list *ret, struct err *e)
{
    int gi = device_nodes_cap_minor(nodes, d->minor, d->gi_id, -1);
    int ci = device_nodes_cap_minor(nodes, d->minor, d->gi_id, (int)d->ci_id);
    if (gi < 0 || ci < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "the driver names no capability devices of %s: GPU instance %u, compute "
                       "instance %u on card %s",
                       d->cdi_name, d->gi_id, d->ci_id, d->card_uuid);
    node_list_add(ret, xasprintf("/dev/nvidia-caps/nvidia-cap%d", gi));
    node_list_add(ret, xasprintf("/dev/nvidia-caps/nvidia-cap%d", ci));
    return 0;
}

static int add_device_nodes(const struct container_nodes *n, const struct entry_device *d,
                            struct node_list *ret, struct err *e)
{
    ret->host_root = n->nvidia.host_dev_root ? n->nvidia.host_dev_root : "";
    node_list_add(ret, xasprintf("/dev/nvidia%u", d->minor));
    return d->mig ? add_caps(&n->nvidia, d, ret, e) : 0;
}

/* --- NVIDIA's container runtime --- */

/* The runtime accepts UUIDs and indices in one list, so a partition without a reported index is
 * named by UUID. */
static char *device_id(const struct entry_options *o, const struct entry_device *d)
{
    if (!o->by_index || (d->mig && d->mig_index < 0))
        return xstrdup(d->uuid);
    if (d->mig)
        return xasprintf("%u:%d", d->index, d->mig_index);
    return xasprintf("%u", d->index);
}

static void add_envvar(const struct entry_options *o, const struct entry_device *const *devices,
                       size_t n, struct entry *en)
{
    auto_sb struct sb list = SB_INIT(LIST_BYTES);
    for (size_t i = 0; i < n; i++) {
        auto_free char *id = device_id(o, devices[i]);
        sb_addf(&list, "%s%s", i ? "," : "", id);
    }
    entry_add_env(en, "NVIDIA_VISIBLE_DEVICES", sb_str(&list));
}

/* Combined with envvar this sets the variable, as NVIDIA's plugin does. */
static void add_volume_list(const struct entry_options *o,
                            const struct entry_device *const *devices, size_t n, struct entry *en)
{
    entry_add_env(en, "NVIDIA_VISIBLE_DEVICES", VOLUME_LIST);
    for (size_t i = 0; i < n; i++) {
        auto_free char *id = device_id(o, devices[i]);
        auto_free char *path = xasprintf("%s/%s", VOLUME_LIST, id);
        entry_add_mount(en, path, "/dev/null", /* read_only= */ false);
    }
}

static void add_features(const struct entry_options *o, struct entry *en)
{
    if (o->gdrcopy)
        entry_add_env(en, "NVIDIA_GDRCOPY", "enabled");
    if (o->gds)
        entry_add_env(en, "NVIDIA_GDS", "enabled");
    if (o->mofed)
        entry_add_env(en, "NVIDIA_MOFED", "enabled");
}

static void tell_runtime(const struct entry_options *o, const struct entry_device *const *devices,
                         size_t n, struct entry *en)
{
    if (o->ways & ENTRY_ENVVAR)
        add_envvar(o, devices, n, en);
    if (o->ways & ENTRY_VOLUME_MOUNTS)
        add_volume_list(o, devices, n, en);
    add_features(o, en);
}

/* --- The row --- */

const struct container_vendor container_nvidia = {
    .name = "nvidia",
    .cdi_kind = "gpu.cleave.dev/nvidia",
    .common_env = "NVIDIA_VISIBLE_DEVICES=void", /* disables NVIDIA's own hook */
    .mounts_driver = true,
    .has_runtime = true,
    .common_nodes = add_common_nodes,
    .device_nodes = add_device_nodes,
    .tell_runtime = tell_runtime,
};
