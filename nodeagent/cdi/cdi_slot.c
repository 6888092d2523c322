/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/cdi_slot.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/cdi.h"
#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/container/driver_mounts.h"
#include "nodeagent/vendor/container_vendors.h"

/* With the driver's files, which are some hundred mounts. */
#define SPEC_BYTES ((size_t)512 * 1024)
#define TAIL       ".gpu.cleave.dev-%s-slot.json"

struct cdi_slots {
    char *folder, *host_root, *hook, *second_folder;
    bool newer_hooks, set_library_path;
};

/* --- Names --- */

static int pool_of_name(const char *name, enum slot_pool *ret, struct err *e)
{
    int slot = slot_of_name(name);
    if (slot < 0)
        return err_set(e, ERR_INVALID, "\"%.200s\" is not a slot's name, such as slot.3", name);
    *ret = slot_pool_of((unsigned)slot);
    return 0;
}

static char *path_of(const struct cdi_slots *s, const char *name, enum slot_pool pool)
{
    return xasprintf("%s/%s" TAIL, s->folder, name, slot_pools[pool].vendor);
}

/* --- Life --- */

struct cdi_slots *cdi_slots_new(const struct cdi_options *o)
{
    struct cdi_slots *s = xcalloc(1, sizeof(*s));
    s->folder = xstrdup(o->folder ? o->folder : CDI_FOLDER);
    s->host_root = xstrdup(o->host_root ? o->host_root : "/");
    s->hook = xstrdup(o->hook);
    s->second_folder = xstrdup(o->second_folder ? o->second_folder : DRIVER_SECOND_FOLDER);
    s->newer_hooks = o->newer_hooks;
    s->set_library_path = o->set_library_path;
    for (unsigned p = 0; p < SLOT_N_POOLS; p++) {
        auto_free char *tail = xasprintf(TAIL, slot_pools[p].vendor);
        /* A draft that cannot be removed does no harm, since runtimes do not read files with its
         * name. */
        (void)!file_sweep(s->folder, tail, /* ret_n= */ NULL, /* e= */ NULL);
    }
    return s;
}

struct cdi_slots *cdi_slots_free(struct cdi_slots *s)
{
    if (!s)
        return NULL;
    free(s->folder);
    free(s->host_root);
    free(s->hook);
    free(s->second_folder);
    free(s);
    return NULL;
}

/* --- Writing --- */

static int check_device(const struct entry_device *d, enum slot_pool *ret, struct err *e)
{
    TRY(pool_of_name(d->cdi_name, ret, e));
    if (strcmp(d->vendor, slot_pools[*ret].vendor) != 0)
        return err_set(e, ERR_INVALID, "%s is no device of %s", d->cdi_name,
                       slot_pools[*ret].vendor);
    if (d->is_slot)
        return err_set(e, ERR_INVALID, "%s: it is not decided what the slot stands for",
                       d->cdi_name);
    return 0;
}

/* The file includes everything that all containers get, because the vendor's main file may be
 * removed. A hook that others than root can change is left out, as in the main file. */
static int render(const struct cdi_slots *s, const struct device_nodes *nodes,
                  const struct cdi_outfit *outfit, const struct entry_device *d,
                  const struct entry_device *const *together, size_t n, struct sb *ret,
                  struct err *e)
{
    static const struct cdi_outfit nothing;
    const struct container_vendor *v = container_vendor_find(d->vendor);
    const struct cdi_outfit *out = outfit ? outfit : &nothing;
    auto_free char *hook = NULL;
    assert(v);
    if (s->hook && v->mounts_driver &&
        cdi_check_hook(s->host_root, s->hook, &hook, /* e= */ NULL) < 0)
        hook = NULL;
    const struct cdi_common_options o = {.hook = hook,
                                         .newer_hooks = s->newer_hooks,
                                         .second_folder = s->second_folder,
                                         .set_library_path = s->set_library_path,
                                         .limiter = out->limiter,
                                         .mounts = out->mounts,
                                         .n_mounts = out->n_mounts,
                                         .envs = out->envs,
                                         .n_envs = out->n_envs};
    auto_free char *common = cdi_common_render(v, &o, nodes, out->files);
    auto_free char *device = NULL;
    TRY(cdi_device_render(nodes, d, together, n, &device, e));
    cdi_spec_begin(ret, v, common);
    sb_addf(ret, "\n%s", device);
    cdi_spec_end(ret);
    return sb_check(ret, e);
}

static bool says(const char *path, const char *text)
{
    auto_free char *old = NULL;
    return file_read(path, SPEC_BYTES, &old, /* ret_len= */ NULL, /* e= */ NULL) == 0 &&
           strcmp(old, text) == 0;
}

static int write_file(const struct cdi_slots *s, const char *path, const char *text, struct err *e)
{
    if (says(path, text))
        return 0;
    TRY(file_make_dirs(s->folder, 0755, e));
    return file_write_atomic(path, text, strlen(text), 0644, e);
}

int cdi_slots_write(const struct cdi_slots *s, const struct device_nodes *nodes,
                    const struct cdi_outfit *outfit, const struct entry_device *d,
                    const struct entry_device *const *together, size_t n, struct err *e)
{
    auto_sb struct sb text = SB_INIT(SPEC_BYTES);
    enum slot_pool pool;
    TRY(check_device(d, &pool, e));
    TRY(render(s, nodes, outfit, d, together, n, &text, e));
    auto_free char *path = path_of(s, d->cdi_name, pool);
    int rc = write_file(s, path, sb_str(&text), e);
    return rc < 0 && e ? err_wrap(e, "CDI spec of %s", d->cdi_name) : rc;
}

int cdi_slots_remove(const struct cdi_slots *s, const char *name, struct err *e)
{
    enum slot_pool pool;
    TRY(pool_of_name(name, &pool, e));
    auto_free char *path = path_of(s, name, pool);
    int rc = file_remove(path, e);
    return rc < 0 && e ? err_wrap(e, "CDI spec of %s", name) : rc;
}

/* --- Listing --- */

/* The slot's name in a file name; NULL: not a slot's file. */
static char *name_in(const char *file)
{
    size_t len = strlen(file);
    for (unsigned p = 0; p < SLOT_N_POOLS; p++) {
        auto_free char *tail = xasprintf(TAIL, slot_pools[p].vendor);
        size_t tail_len = strlen(tail);
        if (len <= tail_len || strcmp(file + len - tail_len, tail) != 0)
            continue;
        auto_free char *name = xstrndup(file, len - tail_len);
        int slot = slot_of_name(name);
        return slot >= 0 && slot_pool_of((unsigned)slot) == p ? TAKE(name) : NULL;
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int cdi_slots_list(const struct cdi_slots *s, struct cdi_slot_names *ret, struct err *e)
{
    auto_dir DIR *dir = opendir(s->folder);
    struct cdi_slot_names names = {0};
    if (!dir && errno != ENOENT)
        return err_set_errno(e, errno, "read %s", s->folder);
    const struct dirent *entry;
    while (dir && names.n < SLOT_MAX && (entry = readdir(dir)) != NULL) {
        char *name = name_in(entry->d_name);
        if (name)
            *XPUSH(names.items, names.n) = name;
    }
    if (names.n)
        qsort(names.items, names.n, sizeof(*names.items), by_name);
    assert(names.n <= SLOT_MAX);
    *ret = names;
    return 0;
}

static bool mentions(const struct cdi_slots *s, const char *name, const char *text)
{
    auto_free char *path = path_of(s, name, slot_pool_of((unsigned)slot_of_name(name)));
    auto_free char *said = NULL;
    int rc = file_read(path, SPEC_BYTES, &said, /* ret_len= */ NULL, /* e= */ NULL);
    return rc == 0 ? strstr(said, text) != NULL : rc != -ERR_NOT_FOUND;
}

bool cdi_slots_mention(const struct cdi_slots *s, const char *text)
{
    auto_cdi_slot_names struct cdi_slot_names names = {0};
    if (cdi_slots_list(s, &names, /* e= */ NULL) < 0)
        return true;
    for (size_t i = 0; i < names.n; i++)
        if (mentions(s, names.items[i], text))
            return true;
    return false;
}

void cdi_slot_names_done(struct cdi_slot_names *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->items[i]);
    free(n->items);
    *n = (struct cdi_slot_names){0};
}
