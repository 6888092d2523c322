/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/entry_build.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/container/driver_mounts.h"
#include "nodeagent/container/grant_mark.h"
#include "nodeagent/vendor/container_vendors.h"

#define LIST_BYTES ((size_t)1 << 20)
/* A runtime's CDI reads no annotations but those of this prefix. */
#define CDI_PREFIX "cdi.k8s.io/"

/* The granted devices without duplicates: replicas of one device are several grants. */
struct granted {
    const struct container_vendor *vendor;
    const struct entry_device **devices;
    size_t n;
    bool slots; /* one of them is a slot */
};

static void granted_done(struct granted *g)
{
    free(g->devices);
}
AUTO_DEFINE(granted, struct granted, granted_done)

static bool has_name(const struct granted *g, const char *cdi_name)
{
    for (size_t i = 0; i < g->n; i++) {
        if (strcmp(g->devices[i]->cdi_name, cdi_name) == 0)
            return true;
    }
    return false;
}

static int collect(const struct entry_device *const *devices, size_t n, struct granted *ret,
                   struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct container_vendor *v = container_vendor_find(devices[i]->vendor);
        if (!v)
            return err_set(e, ERR_INVALID, "%s is of an unknown vendor", devices[i]->cdi_name);
        if (ret->vendor && ret->vendor != v)
            return err_set(e, ERR_INVALID, "a container cannot be granted %s and %s at once",
                           ret->devices[0]->cdi_name, devices[i]->cdi_name);
        ret->vendor = v;
        ret->slots |= devices[i]->is_slot;
        if (!has_name(ret, devices[i]->cdi_name))
            *XPUSH(ret->devices, ret->n) = devices[i];
    }
    return 0;
}

static void add_cdi_names(const struct granted *g, struct entry *en)
{
    for (size_t i = 0; i < g->n; i++)
        *XPUSH(en->cdi_names, en->n_cdi_names) =
            xasprintf("%s=%s", g->vendor->cdi_kind, g->devices[i]->cdi_name);
}

static uint64_t fnv1a(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3U;
    return hash;
}

static const char *prefix_of(const struct entry_options *o)
{
    return o->annotation_prefix ? o->annotation_prefix : CDI_PREFIX;
}

/*
 * The annotations for all devices of one container end up in one map, in which the kubelet keeps
 * the first of two equal keys (kubelet pkg/kubelet/cm/devicemanager/pod_devices.go). NVIDIA's
 * plugin puts a new uuid into the key. A digest of the names is as distinct, and the same each
 * time.
 */
static void add_annotation(const struct entry_options *o, const struct granted *g, struct entry *en)
{
    auto_sb struct sb list = SB_INIT(LIST_BYTES);
    for (size_t i = 0; i < g->n; i++)
        sb_addf(&list, "%s%s=%s", i ? "," : "", g->vendor->cdi_kind, g->devices[i]->cdi_name);
    const char *prefix = prefix_of(o);
    struct entry_pair *a = XPUSH(en->annotations, en->n_annotations);
    a->key =
        xasprintf("%s%s-device-plugin_%016" PRIx64, prefix, g->vendor->name, fnv1a(sb_str(&list)));
    a->value = sb_take(&list);
}

/* --- Ways other than CDI --- */

static int add_device_env(const struct granted *g, struct entry *en, struct err *e)
{
    assert(!g->slots); /* a slot's values are known with its pod */
    const char *key = NULL;
    auto_free char *value = NULL;
    TRY(g->vendor->device_env(g->devices, g->n, &key, &value, e));
    if (key)
        entry_add_env(en, key, value);
    return 0;
}

static int add_nodes(const struct device_nodes *nodes, const struct granted *g, struct entry *en,
                     struct err *e)
{
    auto_device_paths struct device_paths list = {0};
    if (!nodes)
        return err_set(e, ERR_UNAVAILABLE, "the driver's device files are not known yet");
    g->vendor->common_paths(nodes, &list);
    for (size_t i = 0; i < g->n; i++)
        TRY(g->vendor->paths_of(nodes, g->devices[i], &list, e));
    for (size_t i = 0; i < list.n; i++)
        entry_add_node(en, list.host_root, list.paths[i]);
    return 0;
}

static int add_without_cdi(const struct entry_options *o, const struct device_nodes *nodes,
                           const struct granted *g, struct entry *en, struct err *e)
{
    const struct container_vendor *v = g->vendor;
    if (v->tell_runtime)
        v->tell_runtime(o, g->devices, g->n, en);
    if (v->device_env)
        TRY(add_device_env(g, en, e));
    return o->pass_device_nodes || !v->has_runtime ? add_nodes(nodes, g, en, e) : 0;
}

static void add_marks(const struct granted *g, struct entry *en)
{
    for (size_t i = 0; i < g->n; i++) {
        auto_free char *path = grant_mark_path(g->vendor->name, g->devices[i]->cdi_name);
        entry_add_mount(en, path, GRANT_SOURCE, /* read_only= */ true);
    }
}

static void add_driver(const struct entry_options *o, struct entry *en)
{
    auto_driver_mounts struct driver_mounts all;
    driver_mounts_list(o->mounted, /* names= */ true,
                       o->second_folder ? o->second_folder : DRIVER_SECOND_FOLDER,
                       /* substitutes= */ NULL, &all);
    for (size_t i = 0; i < all.n; i++)
        entry_add_mount(en, all.items[i].container_path, all.items[i].host_path,
                        /* read_only= */ true);
}

static bool names_are_heeded(const struct entry_options *o)
{
    return !o->cdi_in_doubt && (o->ways & ENTRY_CDI_CRI || strcmp(prefix_of(o), CDI_PREFIX) == 0);
}

/* A runtime that does no CDI starts the container without a word. */
static int add_beside_cdi(const struct entry_options *o, const struct device_nodes *nodes,
                          const struct granted *g, struct entry *en, struct err *e)
{
    const struct container_vendor *v = g->vendor;
    struct entry_options other = *o;
    other.ways = ENTRY_ENVVAR;
    if (o->mounted && v->mounts_driver)
        add_driver(o, en);
    if (names_are_heeded(o))
        return 0;
    if (v->tell_runtime)
        v->tell_runtime(&other, g->devices, g->n, en);
    if (v->device_env)
        TRY(add_device_env(g, en, e));
    return add_nodes(nodes, g, en, e);
}

/* --- The whole --- */

/* CDI sets the environment of each device separately, and for one variable the last value wins. */
static int check_env(const struct granted *g, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; g->vendor->device_env && i < g->n; i++) {
        const char *key = NULL;
        auto_free char *value = NULL;
        if (g->devices[i]->is_slot)
            continue;
        TRY(g->vendor->device_env(&g->devices[i], 1, &key, &value, e));
        n += key != NULL;
    }
    if (n < 2)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "a container can have one declared slice, not %zu: with CDI only the variable of "
        "the last one would reach it",
        n);
}

static int build(const struct entry_options *o, const struct device_nodes *nodes,
                 const struct granted *g, struct entry *en, struct err *e)
{
    bool by_cdi = o->ways & ENTRY_ALL_CDI;
    assert(g->vendor && g->n > 0);
    if (g->slots && !by_cdi)
        return err_set(e, ERR_INVALID,
                       "%s: a slot needs the device list strategy cdi-cri or cdi-annotations",
                       g->devices[0]->cdi_name);
    if (by_cdi)
        TRY(check_env(g, e));
    if (o->ways & ENTRY_CDI_CRI)
        add_cdi_names(g, en);
    if (o->ways & ENTRY_CDI_ANNOTATIONS)
        add_annotation(o, g, en);
    if (by_cdi && o->by_mark)
        add_marks(g, en);
    if (g->slots)
        return 0;
    return o->ways & ~ENTRY_ALL_CDI ? add_without_cdi(o, nodes, g, en, e)
                                    : add_beside_cdi(o, nodes, g, en, e);
}

int entry_build(const struct entry_options *o, const struct device_nodes *nodes,
                const struct entry_device *const *devices, size_t n, struct entry *ret,
                struct err *e)
{
    auto_entry struct entry en = {0};
    AUTO(granted) struct granted g = {0};
    assert(devices || n == 0);
    TRY(collect(devices, n, &g, e));
    if (g.n)
        TRY(build(o, nodes, &g, &en, e));
    *ret = en;
    en = (struct entry){0};
    return 0;
}
