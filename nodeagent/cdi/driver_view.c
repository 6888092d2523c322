/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/driver_view.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/container/device_make.h"
#include "nodeagent/vendor/container_vendors.h"

static const char *or_root(const char *path)
{
    return path ? path : "/";
}

static struct device_nodes_where nodes_where(const struct driver_where *w)
{
    return (struct device_nodes_where){w->proc_root ? w->proc_root : "/proc", or_root(w->dev_root)};
}

static const char *version_of(const struct gpu_inventory *inv)
{
    const struct gpu_driver *d = gpu_inventory_driver(inv, "nvidia");
    return d ? d->version : "";
}

/* --- Files that drivers make by themselves --- */

static void look_up_files(const struct driver_where *w, const struct gpu_inventory *inv,
                          struct container_nodes *ret)
{
    const struct dri_where where = {w->sys_root ? w->sys_root : "/sys", or_root(w->dev_root)};
    auto_free const char **bus_ids = NULL;
    size_t n = 0;
    for (size_t i = 0; i < inv->n_cards; i++) {
        const struct gpu_card *c = &inv->cards[i];
        const struct container_vendor *v = container_vendor_find(c->vendor);
        if (!v || !v->uses_dri)
            continue;
        *XPUSH(bus_ids, n) = c->pci_bus_id;
        for (unsigned k = 0; k < c->n_vfs; k++)
            *XPUSH(bus_ids, n) = c->vfs[k].pci_bus_id;
    }
    container_nodes_look(&where, w->plain_dev_root, bus_ids, n, ret);
}

/* Device files come and go with virtual functions, and perhaps with slices. */
static bool is_look_current(const struct driver_where *w, const struct driver_view *v,
                            const struct gpu_inventory *inv)
{
    auto_container_nodes struct container_nodes now = {0};
    look_up_files(w, inv, &now);
    return container_nodes_same_look(&now, &v->nodes);
}

/* --- The whole --- */

bool driver_view_is_current(const struct driver_where *w, const struct driver_view *v,
                            const struct gpu_inventory *inv)
{
    return v && strcmp(v->version, version_of(inv)) == 0 && strcmp(v->boot_id, inv->boot_id) == 0 &&
           is_look_current(w, v, inv);
}

static void note(struct driver_view *v, const struct err *e)
{
    log_warn("Could not read what containers need of the driver", kv_err(e));
    if (!*v->trouble)
        (void)snprintf(v->trouble, sizeof(v->trouble), "%s", err_msg(e));
}

static void read_files(const struct driver_where *w, struct driver_view *v)
{
    auto_err struct err e = {0};
    const struct driver_files_where files = {
        .root = or_root(w->driver_root),
        .host_root = w->host_driver_root,
        .version = v->version,
    };
    v->has_files = driver_files_find(&files, &v->files, &e) == 0;
    if (!v->has_files)
        note(v, &e);
}

struct driver_view *driver_view_read(const struct driver_where *w, const struct gpu_inventory *inv)
{
    struct driver_view *v = xmalloc(sizeof(*v));
    *v = (struct driver_view){0};
    auto_err struct err e = {0};
    (void)snprintf(v->version, sizeof(v->version), "%s", version_of(inv));
    (void)snprintf(v->boot_id, sizeof(v->boot_id), "%s", inv->boot_id);
    const struct device_nodes_where nodes = nodes_where(w);
    if (device_nodes_read(&nodes, w->host_dev_root, &v->nodes.nvidia, &e) < 0)
        note(v, &e);
    look_up_files(w, inv, &v->nodes);
    if (gpu_inventory_driver(inv, "nvidia"))
        read_files(w, v);
    return v;
}

void driver_view_make_partitions(const struct driver_where *w, const struct driver_view *v,
                                 const struct gpu_card *card)
{
    const struct device_nodes_where where = nodes_where(w);
    for (unsigned i = 0; i < card->n_partitions; i++) {
        const struct gpu_partition *p = &card->partitions[i];
        auto_err struct err e = {0};
        if (device_make_caps(&where, &v->nodes.nvidia, card->minor, p->gi_id, p->ci_id, &e) < 0)
            log_warn("Could not make a partition's device files", kv("gpu", card->uuid),
                     kv_err(&e));
    }
}

void driver_view_make(const struct driver_where *w, struct driver_view *v,
                      const struct gpu_card *cards, size_t n)
{
    assert(v->more == 0); /* nobody else has the view yet */
    auto_free unsigned *minors = xcalloc(n, sizeof(*minors));
    size_t n_minors = 0;
    const struct device_nodes_where where = nodes_where(w);
    auto_err struct err e = {0};
    for (size_t i = 0; i < n; i++)
        if (strcmp(cards[i].vendor, "nvidia") == 0 && cards[i].minor != UINT_MAX)
            minors[n_minors++] = cards[i].minor;
    if (device_make_cards(&where, &v->nodes.nvidia, minors, n_minors, &e) < 0)
        log_warn("Could not make the driver's device files", kv_err(&e));
    for (size_t i = 0; i < n; i++)
        driver_view_make_partitions(w, v, &cards[i]);
}

struct driver_view *driver_view_hold(struct driver_view *v)
{
    if (v)
        v->more++;
    return v;
}

struct driver_view *driver_view_free(struct driver_view *v)
{
    if (!v)
        return NULL;
    if (v->more) {
        v->more--;
        return NULL;
    }
    container_nodes_done(&v->nodes);
    driver_files_done(&v->files);
    free(v);
    return NULL;
}
