/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/driver_view.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/container_vendors.h"

static const char *path_or(const char *path, const char *otherwise)
{
    return path ? path : otherwise;
}

/* Every path set. */
static struct driver_where whole(const struct driver_where *w)
{
    const char *driver_root = path_or(w->driver_root, "/");
    return (struct driver_where){
        .proc_root = path_or(w->proc_root, "/proc"),
        .sys_root = path_or(w->sys_root, "/sys"),
        .dev_root = path_or(w->dev_root, "/"),
        .host_dev_root = path_or(w->host_dev_root, "/"),
        .plain_dev_root = path_or(w->plain_dev_root, "/"),
        .driver_root = driver_root,
        .host_driver_root = path_or(w->host_driver_root, driver_root),
    };
}

/* The driver whose files containers get; NULL: none of these is loaded. */
static const struct gpu_driver *mounted_driver(const struct gpu_inventory *inv)
{
    for (size_t i = 0; i < inv->n_drivers; i++) {
        const struct container_vendor *v = container_vendor_find(inv->drivers[i].vendor);
        if (v && v->mounts_driver)
            return &inv->drivers[i];
    }
    return NULL;
}

static const char *version_of(const struct gpu_inventory *inv)
{
    const struct gpu_driver *d = mounted_driver(inv);
    return d ? d->version : "";
}

bool driver_view_is_current(const struct driver_where *w, const struct driver_view *v,
                            const struct gpu_inventory *inv)
{
    const struct driver_where where = whole(w);
    return v && strcmp(v->version, version_of(inv)) == 0 && strcmp(v->boot_id, inv->boot_id) == 0 &&
           device_nodes_are_current(&where, inv->cards, inv->n_cards, &v->nodes);
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
        .root = w->driver_root,
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
    const struct driver_where where = whole(w);
    if (device_nodes_read(&where, inv->cards, inv->n_cards, &v->nodes, &e) < 0)
        note(v, &e);
    if (mounted_driver(inv))
        read_files(&where, v);
    return v;
}

void driver_view_make_card(const struct driver_where *w, const struct driver_view *v,
                           const struct gpu_card *card)
{
    const struct driver_where where = whole(w);
    auto_err struct err e = {0};
    if (device_nodes_make_card(&where, card, &v->nodes, &e) < 0)
        log_warn("Could not make all device files of a card", kv("gpu", card->uuid), kv_err(&e));
}

void driver_view_make(const struct driver_where *w, struct driver_view *v,
                      const struct gpu_card *cards, size_t n)
{
    assert(v->more == 0); /* nobody else has the view yet */
    const struct driver_where where = whole(w);
    auto_err struct err e = {0};
    if (device_nodes_make(&where, cards, n, &v->nodes, &e) < 0)
        log_warn("Could not make all device files of the cards", kv_err(&e));
    for (size_t i = 0; i < n; i++)
        driver_view_make_card(w, v, &cards[i]);
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
    device_nodes_done(&v->nodes);
    driver_files_done(&v->files);
    free(v);
    return NULL;
}
