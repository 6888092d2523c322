/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/container_nvidia.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/nvidia/nvidia_make.h"

/* The folder in which NVIDIA's runtime looks for the list, one file per device (server.go:
 * deviceListAsVolumeMountsContainerPathRoot). */
#define VOLUME_LIST "/var/run/nvidia-container-devices"
#define LIST_BYTES  ((size_t)1 << 20)

/* --- Its own files --- */

static void *read_own(const struct driver_where *w, struct err *e)
{
    struct nvidia_nodes *own = xcalloc(1, sizeof(*own));
    if (nvidia_nodes_read(w, own, e) < 0)
        *own = (struct nvidia_nodes){.config_minor = -1, .monitor_minor = -1};
    return own;
}

static void free_own(void *own)
{
    nvidia_nodes_done(own);
    free(own);
}

static int make_own(const struct driver_where *w, void *own, const struct gpu_card *cards, size_t n,
                    struct err *e)
{
    auto_free unsigned *minors = NULL;
    size_t n_minors = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(cards[i].vendor, container_nvidia.name) == 0 && cards[i].minor != UINT_MAX)
            *XPUSH(minors, n_minors) = cards[i].minor;
    return nvidia_make_cards(w, own, minors, n_minors, e);
}

static int make_card(const struct driver_where *w, const void *own, const struct gpu_card *card,
                     struct err *e)
{
    auto_err struct err first = {0};
    if (card->minor != UINT_MAX)
        (void)!nvidia_make_card(w, own, card->minor, &first);
    for (unsigned i = 0; i < card->n_partitions; i++) {
        const struct gpu_partition *p = &card->partitions[i];
        struct err now = {0};
        if (nvidia_make_caps(w, own, card->minor, p->gi_id, p->ci_id, &now) < 0 && !first.kind)
            (void)err_move(&first, &now);
        err_clear(&now);
    }
    return first.kind ? err_move(e, &first) : 0;
}

static bool is_current(const struct driver_where *w, const void *own)
{
    return nvidia_nodes_are_current(w, own);
}

static const struct container_own_files own_files = {
    .read = read_own,
    .is_current = is_current,
    .make = make_own,
    .make_card = make_card,
    .free = free_own,
};

static const struct nvidia_nodes *own_of(const struct device_nodes *n)
{
    static const struct nvidia_nodes none;
    const struct nvidia_nodes *own = device_nodes_own(n, &container_nvidia);
    return own ? own : &none;
}

/* --- Files for containers --- */

static void add_common_paths(const struct device_nodes *n, struct device_paths *ret)
{
    const struct nvidia_nodes *nodes = own_of(n);
    ret->host_root = nodes->host_dev_root ? nodes->host_dev_root : "";
    if (nodes->ctl)
        device_paths_add(ret, xstrdup("/dev/nvidiactl"));
    if (nodes->uvm)
        device_paths_add(ret, xstrdup("/dev/nvidia-uvm"));
    if (nodes->uvm_tools)
        device_paths_add(ret, xstrdup("/dev/nvidia-uvm-tools"));
    if (nodes->modeset)
        device_paths_add(ret, xstrdup("/dev/nvidia-modeset"));
}

static bool knows_paths(const struct device_nodes *n, const struct entry_device *d)
{
    const struct nvidia_nodes *nodes = own_of(n);
    return nodes->nvidia_major > 0 && (!d->mig || nodes->n_caps > 0);
}

static int add_caps(const struct nvidia_nodes *nodes, const struct entry_device *d,
                    struct device_paths *ret, struct err *e)
{
    int gi = nvidia_nodes_cap_minor(nodes, d->minor, d->gi_id, -1);
    int ci = nvidia_nodes_cap_minor(nodes, d->minor, d->gi_id, (int)d->ci_id);
    if (gi < 0 || ci < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "the driver names no capability devices of %s: GPU instance %u, compute "
                       "instance %u on card %s",
                       d->cdi_name, d->gi_id, d->ci_id, d->card_uuid);
    device_paths_add(ret, xasprintf("/dev/nvidia-caps/nvidia-cap%d", gi));
    device_paths_add(ret, xasprintf("/dev/nvidia-caps/nvidia-cap%d", ci));
    return 0;
}

static int add_paths_of(const struct device_nodes *n, const struct entry_device *d,
                        struct device_paths *ret, struct err *e)
{
    const struct nvidia_nodes *nodes = own_of(n);
    if (!nvidia_nodes_have_card(nodes, d->minor))
        return err_set(e, ERR_NOT_FOUND, "%s: there is no device file /dev/nvidia%u", d->cdi_name,
                       d->minor);
    ret->host_root = nodes->host_dev_root ? nodes->host_dev_root : "";
    device_paths_add(ret, xasprintf("/dev/nvidia%u", d->minor));
    return d->mig ? add_caps(nodes, d, ret, e) : 0;
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

/* --- Shares --- */

static void add_number(const char *key, uint64_t value, struct entry *ret)
{
    auto_free char *text = xasprintf("%" PRIu64, value);
    entry_add_env(ret, key, text);
}

/* Programs of gpushare's containers divide the first two, in GiB, into the part of the memory that
 * they take (gpushare-device-plugin pkg/gpu/nvidia/allocate.go). */
static void add_gpushare_env(const struct entry_device *d, struct entry *ret)
{
    enum { MIB_OF_GIB = 1024 };
    bool over = d->slice.memory_mib > d->slice.card_mib; /* a card that is promised twice */
    uint64_t mib = over ? d->slice.card_mib : d->slice.memory_mib;
    if (mib < MIB_OF_GIB)
        return;
    add_number("ALIYUN_COM_GPU_MEM_CONTAINER", mib / MIB_OF_GIB, ret);
    add_number("ALIYUN_COM_GPU_MEM_DEV", d->slice.card_mib / MIB_OF_GIB, ret);
    add_number("ALIYUN_COM_GPU_MEM_IDX", d->index, ret);
}

/* The names that programs in HAMi's containers read (HAMi-core's documentation), and gpushare's. They
 * say how much is meant; nothing here enforces it. HAMi gives the first share's compute alone, and a
 * container of gpushare's has one share. */
static void add_share_env(const struct entry_device *d, size_t position, struct entry *ret)
{
    auto_free char *key = xasprintf("CUDA_DEVICE_MEMORY_LIMIT_%zu", position);
    auto_free char *memory = xasprintf("%" PRIu64 "m", d->slice.memory_mib);
    entry_add_env(ret, key, memory);
    if (position > 0)
        return;
    add_number("CUDA_DEVICE_SM_LIMIT", d->slice.compute_percent, ret);
    add_gpushare_env(d, ret);
}

/* limiter/ is built to find the driver's libraries there. */
#define REAL_FOLDER "/usr/lib/cleave/real/"

static const struct container_shim shims[] = {{"libcuda.so", "libcleave-cuda.so",
                                               REAL_FOLDER "libcuda.so.1"},
                                              {"libnvidia-ml.so", "libcleave-nvml.so",
                                               REAL_FOLDER "libnvidia-ml.so.1"},
                                              {0}};

/* --- The row --- */

const struct container_vendor container_nvidia = {
    .name = "nvidia",
    .cdi_kind = "gpu.cleave.dev/nvidia",
    .common_env = "NVIDIA_VISIBLE_DEVICES=void", /* disables NVIDIA's own hook */
    .mounts_driver = true,
    .has_runtime = true,
    .own = &own_files,
    .common_paths = add_common_paths,
    .knows_paths = knows_paths,
    .paths_of = add_paths_of,
    .share_env = add_share_env,
    .shims = shims,
    .tell_runtime = tell_runtime,
};
