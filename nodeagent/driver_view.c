/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/driver_view.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/device_make.h"

static const char *or_root(const char *path)
{
    return path ? path : "/";
}

static struct device_nodes_where nodes_where(const struct driver_where *w)
{
    return (struct device_nodes_where){w->proc_root ? w->proc_root : "/proc", or_root(w->dev_root)};
}

bool driver_view_is_current(const struct driver_view *v, const struct gpu_inventory *inv)
{
    return v && strcmp(v->version, inv->driver_version) == 0 &&
           strcmp(v->boot_id, inv->boot_id) == 0;
}

static void note(struct driver_view *v, const struct err *e)
{
    log_warn("Could not read what containers need of the driver", kv_err(e));
    if (!*v->trouble)
        (void)snprintf(v->trouble, sizeof(v->trouble), "%s", err_msg(e));
}

struct driver_view *driver_view_read(const struct driver_where *w, const struct gpu_inventory *inv)
{
    struct driver_view *v = xmalloc(sizeof(*v));
    *v = (struct driver_view){0};
    auto_err struct err e = {0};
    (void)snprintf(v->version, sizeof(v->version), "%s", inv->driver_version);
    (void)snprintf(v->boot_id, sizeof(v->boot_id), "%s", inv->boot_id);
    const struct device_nodes_where nodes = nodes_where(w);
    if (device_nodes_read(&nodes, w->host_dev_root, &v->nodes, &e) < 0)
        note(v, &e);
    const struct driver_files_where files = {
        .root = or_root(w->driver_root),
        .host_root = w->host_driver_root,
        .version = inv->driver_version,
    };
    err_clear(&e);
    v->has_files = driver_files_find(&files, &v->files, &e) == 0;
    if (!v->has_files)
        note(v, &e);
    return v;
}

void driver_view_make_partitions(const struct driver_where *w, const struct driver_view *v,
                                 const struct gpu_card *card)
{
    const struct device_nodes_where where = nodes_where(w);
    for (unsigned i = 0; i < card->n_partitions; i++) {
        const struct gpu_partition *p = &card->partitions[i];
        auto_err struct err e = {0};
        if (device_make_caps(&where, &v->nodes, card->minor, p->gi_id, p->ci_id, &e) < 0)
            log_warn("Could not make a partition's device files", kv("gpu", card->uuid),
                     kv_err(&e));
    }
}

void driver_view_make(const struct driver_where *w, struct driver_view *v,
                      const struct gpu_card *cards, size_t n)
{
    auto_free unsigned *minors = xcalloc(n, sizeof(*minors));
    size_t n_minors = 0;
    const struct device_nodes_where where = nodes_where(w);
    auto_err struct err e = {0};
    for (size_t i = 0; i < n; i++)
        if (cards[i].minor != UINT_MAX)
            minors[n_minors++] = cards[i].minor;
    if (device_make_cards(&where, &v->nodes, minors, n_minors, &e) < 0)
        log_warn("Could not make the driver's device files", kv_err(&e));
    for (size_t i = 0; i < n; i++)
        driver_view_make_partitions(w, v, &cards[i]);
}

struct driver_view *driver_view_free(struct driver_view *v)
{
    if (!v)
        return NULL;
    device_nodes_done(&v->nodes);
    driver_files_done(&v->files);
    free(v);
    return NULL;
}
