/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/driver_mounts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* A list in the making. */
struct making {
    const struct driver_files *files;
    const struct driver_substitutes *substitutes;
    struct driver_mounts *mounts;
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- Substitutes --- */

/* True for the name without a version, and with one. */
static bool is_library(const struct driver_file *f, const char *library)
{
    const char *name = base_of(f->container_path);
    size_t len = strlen(library);
    return f->kind == DRIVER_LIBRARY && strncmp(name, library, len) == 0 &&
           (name[len] == '\0' || name[len] == '.');
}

static const struct driver_file *library_of(const struct driver_files *f, const char *library)
{
    for (size_t i = 0; i < f->n_files; i++)
        if (is_library(&f->files[i], library))
            return &f->files[i];
    return NULL;
}

bool driver_files_have(const struct driver_files *f, const char *library)
{
    return library_of(f, library) != NULL;
}

/* The file that the container gets in place of one of the driver's, whatever the name is by which
 * that is reached. */
static const char *instead_of(const struct making *m, const char *host_path)
{
    for (size_t i = 0; m->substitutes && i < m->substitutes->n; i++)
        for (size_t k = 0; k < m->files->n_files; k++)
            if (is_library(&m->files->files[k], m->substitutes->items[i].library) &&
                strcmp(m->files->files[k].host_path, host_path) == 0)
                return m->substitutes->items[i].instead;
    return host_path;
}

/* --- The list --- */

static struct driver_mount *add(const struct making *m, const char *host_path,
                                char *container_path_take)
{
    struct driver_mount *new = XPUSH(m->mounts->items, m->mounts->n);
    *new = (struct driver_mount){.host_path = instead_of(m, host_path)};
    new->container_path = container_path_take;
    return new;
}

static void add_real(const struct making *m)
{
    for (size_t i = 0; m->substitutes && i < m->substitutes->n; i++) {
        const struct driver_substitute *s = &m->substitutes->items[i];
        const struct driver_file *real = library_of(m->files, s->library);
        if (real)
            add(m, real->host_path, xstrdup(s->real_at))->host_path = real->host_path;
    }
}

/* Adds a file to the second folder, without its subfolder (vdpau, gbm). */
static void add_again(const struct making *m, const char *folder, const char *host_path,
                      const char *path)
{
    if (folder[0])
        (void)add(m, host_path, xasprintf("%s/%s", folder, base_of(path)));
}

static void add_names(const struct making *m, const char *folder)
{
    const struct driver_files *f = m->files;
    for (size_t i = 0; i < f->n_links; i++)
        (void)add(m, f->links[i].host_path, xstrdup(f->links[i].path));
    for (size_t i = 0; i < f->n_files; i++)
        if (f->files[i].kind == DRIVER_LIBRARY)
            add_again(m, folder, f->files[i].host_path, f->files[i].container_path);
    for (size_t i = 0; i < f->n_links; i++)
        add_again(m, folder, f->links[i].host_path, f->links[i].path);
}

void driver_mounts_list(const struct driver_files *f, bool names, const char *second_folder,
                        const struct driver_substitutes *substitutes, struct driver_mounts *ret)
{
    assert(second_folder);
    *ret = (struct driver_mounts){0};
    const struct making m = {f, substitutes, ret};
    for (size_t i = 0; i < f->n_files; i++)
        add(&m, f->files[i].host_path, xstrdup(f->files[i].container_path))->no_exec =
            f->files[i].kind == DRIVER_SOCKET;
    add_real(&m);
    if (names)
        add_names(&m, second_folder);
}

void driver_mounts_done(struct driver_mounts *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->items[i].container_path);
    free(m->items);
    *m = (struct driver_mounts){0};
}
