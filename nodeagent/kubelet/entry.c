/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/entry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/device_nodes.h"

#define ALL_CDI ((unsigned)(ENTRY_CDI_CRI | ENTRY_CDI_ANNOTATIONS))
/* Where NVIDIA's runtime looks for the list, one file a device (server.go:
 * deviceListAsVolumeMountsContainerPathRoot). */
#define VOLUME_LIST "/var/run/nvidia-container-devices"
#define LIST_BYTES  ((size_t)1 << 20)

static char *device_id(const struct entry_options *o, const struct entry_device *d)
{
    if (!o->by_index)
        return xstrdup(d->uuid);
    if (d->mig)
        return xasprintf("%u:%u", d->index, d->mig_index);
    return xasprintf("%u", d->index);
}

/* Is the i-th device one that came before? Time-slicing replicas are several grants of one. */
static bool is_again(const struct entry_device *const *devices, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(devices[k]->cdi_name, devices[i]->cdi_name) == 0)
            return true;
    }
    return false;
}

static struct entry_pair *find_env(struct entry *en, const char *key)
{
    for (size_t i = 0; i < en->n_envs; i++) {
        if (strcmp(en->envs[i].key, key) == 0)
            return &en->envs[i];
    }
    return NULL;
}

void entry_add_env(struct entry *en, const char *key, const char *value)
{
    struct entry_pair *env = find_env(en, key);
    if (!env) {
        env = XPUSH(en->envs, en->n_envs);
        env->key = xstrdup(key);
    }
    xstr_set(&env->value, value);
}

void entry_add_mount(struct entry *en, const char *container_path, const char *host_path,
                     bool read_only)
{
    struct entry_mount *m = XPUSH(en->mounts, en->n_mounts);
    m->container_path = xstrdup(container_path);
    m->host_path = xstrdup(host_path);
    m->read_only = read_only;
}

static void add_cdi_names(const struct entry_device *const *devices, size_t n, struct entry *en)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_again(devices, i))
            *XPUSH(en->cdi_names, en->n_cdi_names) =
                xasprintf("%s=%s", ENTRY_CDI_KIND, devices[i]->cdi_name);
    }
}

static uint64_t fnv1a(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3U;
    return hash;
}

/*
 * Annotations of all that one container is granted end up in one map, and the kubelet keeps the
 * first of two equal keys (kubelet pkg/kubelet/cm/devicemanager/pod_devices.go). NVIDIA's plugin
 * puts a fresh uuid into the key; a digest of the names is as distinct and the same each time.
 */
static void add_annotation(const struct entry_options *o, const struct entry_device *const *devices,
                           size_t n, struct entry *en)
{
    auto_sb struct sb list = SB_INIT(LIST_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (!is_again(devices, i))
            sb_addf(&list, "%s%s=%s", i ? "," : "", ENTRY_CDI_KIND, devices[i]->cdi_name);
    }
    const char *prefix = o->annotation_prefix ? o->annotation_prefix : "cdi.k8s.io/";
    struct entry_pair *a = XPUSH(en->annotations, en->n_annotations);
    a->key = xasprintf("%snvidia-device-plugin_%016" PRIx64, prefix, fnv1a(sb_str(&list)));
    a->value = sb_take(&list);
}

static void add_envvar(const struct entry_options *o, const struct entry_device *const *devices,
                       size_t n, struct entry *en)
{
    auto_sb struct sb list = SB_INIT(LIST_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (is_again(devices, i))
            continue;
        auto_free char *id = device_id(o, devices[i]);
        sb_addf(&list, "%s%s", i ? "," : "", id);
    }
    entry_add_env(en, "NVIDIA_VISIBLE_DEVICES", sb_str(&list));
}

/* Together with envvar this one has the variable, as in NVIDIA's plugin. */
static void add_volume_list(const struct entry_options *o,
                            const struct entry_device *const *devices, size_t n, struct entry *en)
{
    entry_add_env(en, "NVIDIA_VISIBLE_DEVICES", VOLUME_LIST);
    for (size_t i = 0; i < n; i++) {
        if (is_again(devices, i))
            continue;
        auto_free char *id = device_id(o, devices[i]);
        auto_free char *path = xasprintf("%s/%s", VOLUME_LIST, id);
        entry_add_mount(en, path, "/dev/null", /* read_only= */ false);
    }
}

/* Cards of several partitions, and the common files, come up more than once. */
static void add_node(const struct device_nodes *nodes, struct entry *en, char *path_take)
{
    auto_free char *path = path_take;
    for (size_t i = 0; i < en->n_nodes; i++) {
        if (strcmp(en->nodes[i].container_path, path) == 0)
            return;
    }
    struct entry_node *node = XPUSH(en->nodes, en->n_nodes);
    node->host_path = xasprintf("%s%s", nodes->host_dev_root ? nodes->host_dev_root : "", path);
    node->container_path = TAKE(path);
    memcpy(node->permissions, "rw", sizeof("rw"));
}

static void add_common_nodes(const struct device_nodes *nodes, struct entry *en)
{
    if (nodes->ctl)
        add_node(nodes, en, xstrdup("/dev/nvidiactl"));
    if (nodes->uvm)
        add_node(nodes, en, xstrdup("/dev/nvidia-uvm"));
    if (nodes->uvm_tools)
        add_node(nodes, en, xstrdup("/dev/nvidia-uvm-tools"));
    if (nodes->modeset)
        add_node(nodes, en, xstrdup("/dev/nvidia-modeset"));
}

static int add_cap_nodes(const struct device_nodes *nodes, const struct entry_device *d,
                         struct entry *en, struct err *e)
{
    int gi = device_nodes_cap_minor(nodes, d->minor, d->gi_id, -1);
    int ci = device_nodes_cap_minor(nodes, d->minor, d->gi_id, (int)d->ci_id);
    if (gi < 0 || ci < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "the driver names no capability device of GPU instance %u, compute "
                       "instance %u on card %s",
                       d->gi_id, d->ci_id, d->card_uuid);
    add_node(nodes, en, xasprintf("/dev/nvidia-caps/nvidia-cap%d", gi));
    add_node(nodes, en, xasprintf("/dev/nvidia-caps/nvidia-cap%d", ci));
    return 0;
}

static int add_nodes(const struct device_nodes *nodes, const struct entry_device *const *devices,
                     size_t n, struct entry *en, struct err *e)
{
    if (!nodes)
        return err_set(e, ERR_UNAVAILABLE, "the driver's device files are not known yet");
    add_common_nodes(nodes, en);
    for (size_t i = 0; i < n; i++) {
        add_node(nodes, en, xasprintf("/dev/nvidia%u", devices[i]->minor));
        if (devices[i]->mig)
            TRY(add_cap_nodes(nodes, devices[i], en, e));
    }
    return 0;
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

/* What CDI does not say itself; with CDI alone the spec has it all. */
static int add_for_runtime(const struct entry_options *o, const struct device_nodes *nodes,
                           const struct entry_device *const *devices, size_t n, struct entry *en,
                           struct err *e)
{
    if (!(o->ways & ~ALL_CDI))
        return 0;
    if (o->ways & ENTRY_ENVVAR)
        add_envvar(o, devices, n, en);
    if (o->ways & ENTRY_VOLUME_MOUNTS)
        add_volume_list(o, devices, n, en);
    add_features(o, en);
    return o->pass_device_nodes ? add_nodes(nodes, devices, n, en, e) : 0;
}

int entry_build(const struct entry_options *o, const struct device_nodes *nodes,
                const struct entry_device *const *devices, size_t n, struct entry *ret,
                struct err *e)
{
    auto_entry struct entry en = {0};
    if (o->ways & ENTRY_CDI_CRI)
        add_cdi_names(devices, n, &en);
    if (o->ways & ENTRY_CDI_ANNOTATIONS)
        add_annotation(o, devices, n, &en);
    TRY(add_for_runtime(o, nodes, devices, n, &en, e));
    *ret = en;
    en = (struct entry){0};
    return 0;
}

char *entry_cdi_name(const char *card_uuid, const char *profile, unsigned start, int ci_start)
{
    if (!profile)
        return xstrdup(card_uuid);
    char *name = ci_start < 0 ? xasprintf("%s-%s-%u", card_uuid, profile, start)
                              : xasprintf("%s-%s-%u-%d", card_uuid, profile, start, ci_start);
    for (char *c = name; (c = strchr(c, '+')) != NULL;)
        *c = '.';
    return name;
}

void entry_device_done(struct entry_device *d)
{
    free(d->cdi_name);
    free(d->uuid);
    free(d->card_uuid);
    *d = (struct entry_device){0};
}

static void pairs_done(struct entry_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(pairs[i].key);
        free(pairs[i].value);
    }
    free(pairs);
}

void entry_done(struct entry *en)
{
    pairs_done(en->envs, en->n_envs);
    pairs_done(en->annotations, en->n_annotations);
    for (size_t i = 0; i < en->n_mounts; i++) {
        free(en->mounts[i].container_path);
        free(en->mounts[i].host_path);
    }
    free(en->mounts);
    for (size_t i = 0; i < en->n_nodes; i++) {
        free(en->nodes[i].container_path);
        free(en->nodes[i].host_path);
    }
    free(en->nodes);
    for (size_t i = 0; i < en->n_cdi_names; i++)
        free(en->cdi_names[i]);
    free(en->cdi_names);
    *en = (struct entry){0};
}
