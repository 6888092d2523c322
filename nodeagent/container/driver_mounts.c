/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/driver_mounts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static struct driver_mount *add(struct driver_mounts *m, const char *host_path,
                                char *container_path_take)
{
    struct driver_mount *new = XPUSH(m->items, m->n);
    *new = (struct driver_mount){.host_path = host_path, .container_path = container_path_take};
    return new;
}

/* Adds a file to the second folder, without its subfolder (vdpau, gbm). */
static void add_again(struct driver_mounts *m, const char *folder, const char *host_path,
                      const char *path)
{
    const char *slash = strrchr(path, '/');
    if (folder[0])
        (void)add(m, host_path, xasprintf("%s/%s", folder, slash ? slash + 1 : path));
}

static void add_names(const struct driver_files *f, const char *folder, struct driver_mounts *m)
{
    for (size_t i = 0; i < f->n_links; i++)
        (void)add(m, f->links[i].host_path, xstrdup(f->links[i].path));
    for (size_t i = 0; i < f->n_files; i++)
        if (f->files[i].kind == DRIVER_LIBRARY)
            add_again(m, folder, f->files[i].host_path, f->files[i].container_path);
    for (size_t i = 0; i < f->n_links; i++)
        add_again(m, folder, f->links[i].host_path, f->links[i].path);
}

void driver_mounts_list(const struct driver_files *f, bool names, const char *second_folder,
                        struct driver_mounts *ret)
{
    assert(second_folder);
    *ret = (struct driver_mounts){0};
    for (size_t i = 0; i < f->n_files; i++)
        add(ret, f->files[i].host_path, xstrdup(f->files[i].container_path))->no_exec =
            f->files[i].kind == DRIVER_SOCKET;
    if (names)
        add_names(f, second_folder, ret);
}

void driver_mounts_done(struct driver_mounts *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->items[i].container_path);
    free(m->items);
    *m = (struct driver_mounts){0};
}
