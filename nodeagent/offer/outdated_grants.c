/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/outdated_grants.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

/* The device of a grant; NULL: the table has none of this id now. */
static const struct table_device *device_of(const struct device_table *t,
                                            const struct checkpoint_device *d)
{
    const struct table_resource *r = device_table_resource(t, d->resource);
    return r ? table_resource_device(r, d->id) : NULL;
}

/* Adds the files of all devices of the grant; false: one of them is not known. */
static bool add_files(const struct device_table *t, const struct device_nodes *nodes,
                      const struct checkpoint *c, const struct checkpoint_grant *g,
                      struct device_paths *ret)
{
    for (size_t i = g->first; i < g->first + g->n; i++) {
        const struct table_device *d = device_of(t, &c->devices[i]);
        const struct container_vendor *v = d ? container_vendor_find(d->entry.vendor) : NULL;
        if (!v || d->entry.is_slot)
            return false;
        v->common_paths(nodes, ret);
        if (v->paths_of(nodes, &d->entry, ret, /* e= */ NULL) < 0)
            return false;
    }
    return true;
}

static bool is_outdated(const struct device_table *t, const struct device_nodes *nodes,
                        const struct checkpoint *c, const struct checkpoint_grant *g)
{
    auto_device_paths struct device_paths now = {.host_root = ""};
    if (!g->n_files || !add_files(t, nodes, c, g, &now))
        return false;
    for (size_t i = 0; i < g->n_files; i++)
        if (!has_path(&now, g->files[i]))
            return true;
    return false;
}

static void add(const struct device_table *t, const struct checkpoint_device *d,
                const struct holders *h, struct outdated_grants *ret)
{
    const char *id = device_of(t, d)->id;
    const struct holder *who = holders_get(h, id, 0);
    *XPUSH(ret->items, ret->n) = (struct outdated_grant){.ns = xstrdup(who ? who->ns : NULL),
                                                         .pod = xstrdup(who ? who->pod : NULL),
                                                         .uid = xstrdup(d->uid),
                                                         .container = xstrdup(d->container),
                                                         .id = xstrdup(id)};
}

void outdated_grants_find(const struct device_table *t, const struct device_nodes *nodes,
                          const struct checkpoint *c, const struct holders *h,
                          struct outdated_grants *ret)
{
    *ret = (struct outdated_grants){0};
    assert(nodes);
    for (size_t i = 0; i < c->n_grants; i++)
        if (is_outdated(t, nodes, c, &c->grants[i]))
            add(t, &c->devices[c->grants[i].first], h, ret);
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
