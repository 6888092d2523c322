/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/outdated_grants.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/container_vendors.h"

/* The answer's path has the host's root before it. */
static bool has_path(const struct device_paths *l, const char *host_path)
{
    size_t root = strlen(l->host_root);
    if (strncmp(host_path, l->host_root, root) != 0)
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->paths[i], host_path + root) == 0)
            return true;
    return false;
}

/* The device files that the devices of a grant have now. */
struct files_now {
    struct device_paths paths;
    bool is_one_gone;
};

static void files_now_done(struct files_now *f)
{
    device_paths_done(&f->paths);
}
AUTO_DEFINE(files_now, struct files_now, files_now_done)

static bool is_among(const struct table_device *const *list, size_t n, const struct table_device *d)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == d)
            return true;
    return false;
}

/* Adds the files of each device once: replicas of one are several grants. False: those of one device
 * are not known. All devices of a grant are of one vendor (cdi/entry_build.c). */
static bool find_files(const struct outdated_facts *f, const struct checkpoint_grant *g,
                       struct files_now *ret)
{
    auto_free const struct table_device **added = NULL;
    size_t n_added = 0;
    for (size_t i = g->first; i < g->first + g->n; i++) {
        const struct table_device *d = device_table_device(f->table, f->checkpoint->devices[i].id);
        const struct container_vendor *v = d ? container_vendor_find(d->entry.vendor) : NULL;
        if (!v || d->entry.is_slot || (v->knows_paths && !v->knows_paths(f->nodes, &d->entry)))
            return false;
        if (is_among(added, n_added, d))
            continue;
        if (!n_added)
            v->common_paths(f->nodes, &ret->paths);
        *XPUSH(added, n_added) = d;
        ret->is_one_gone |= v->paths_of(f->nodes, &d->entry, &ret->paths, /* e= */ NULL) < 0;
    }
    return true;
}

static bool is_outdated(const struct outdated_facts *f, const struct checkpoint_grant *g)
{
    AUTO(files_now) struct files_now now = {.paths.host_root = ""};
    if (!g->n_files || (g->is_marked && f->marks_count) || !find_files(f, g, &now))
        return false;
    for (size_t i = 0; i < g->n_files; i++)
        if (!has_path(&now.paths, g->files[i]))
            return true;
    return now.is_one_gone;
}

/* The holder that is listed with this very grant; NULL: none is. Another replica of the device is
 * another pod's. */
static const struct holder *holder_of(const struct holders *h, const struct checkpoint_device *d)
{
    if (!d->id || !d->container)
        return NULL;
    for (size_t i = 0; i < h->n_listed; i++)
        if (text_same(h->listed[i].id, d->id) && text_same(h->listed[i].container, d->container))
            return &h->listed[i];
    return NULL;
}

static void add(const struct outdated_facts *f, const struct checkpoint_device *d,
                struct outdated_grants *ret)
{
    const struct holder *who = holder_of(f->holders, d);
    *XPUSH(ret->items, ret->n) =
        (struct outdated_grant){.ns = xstrdup(who ? who->ns : NULL),
                                .pod = xstrdup(who ? who->pod : NULL),
                                .uid = xstrdup(d->uid),
                                .container = xstrdup(d->container),
                                .id = xstrdup(device_table_device(f->table, d->id)->id)};
}

static int by_pod(const void *a, const void *b)
{
    const struct outdated_grant *x = a;
    const struct outdated_grant *y = b;
    const int orders[] = {text_order(x->ns, y->ns), text_order(x->pod, y->pod),
                          text_order(x->uid, y->uid), text_order(x->container, y->container),
                          text_order(x->id, y->id)};
    for (size_t i = 0; i < ARRAY_LEN(orders); i++)
        if (orders[i])
            return orders[i];
    return 0;
}

void outdated_grants_find(const struct outdated_facts *f, struct outdated_grants *ret)
{
    const struct checkpoint *c = f->checkpoint;
    *ret = (struct outdated_grants){0};
    assert(f->table && f->nodes && c && f->holders);
    for (size_t i = 0; i < c->n_grants; i++)
        if (is_outdated(f, &c->grants[i]))
            add(f, &c->devices[c->grants[i].first], ret);
    if (ret->n)
        qsort(ret->items, ret->n, sizeof(*ret->items), by_pod);
}

void outdated_grants_done(struct outdated_grants *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free(g->items[i].ns);
        free(g->items[i].pod);
        free(g->items[i].uid);
        free(g->items[i].container);
        free(g->items[i].id);
    }
    free(g->items);
    *g = (struct outdated_grants){0};
}
