/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/cdi.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/driver_mounts.h"
#include "nodeagent/container/rooted.h"
#include "nodeagent/vendor/container_vendors.h"
#include "nodeagent/vendor/vendors.h"

#define SPEC_BYTES ((size_t)16 << 20)

/* Devices and their text in a file. */
struct entries {
    struct told {
        char *name, *text;
    } * items;
    size_t n;
};

/* The file of one vendor. */
struct spec {
    const struct container_vendor *vendor;
    char *path;
    char *common;       /* JSON of containerEdits; NULL: not made yet */
    struct entries has; /* the devices that it should have */
    bool written;       /* the file was made of `common` and `has` */
    struct stat seen;   /* the file when it was written */
};

struct cdi {
    char *folder, *host_root, *hook, *second_folder;
    bool newer_hooks, set_library_path;
    struct spec *specs; /* one per vendor */
    size_t n_specs;
};

static void told_done(struct told *t)
{
    free(t->name);
    free(t->text);
}

static void entries_done(struct entries *n)
{
    for (size_t i = 0; i < n->n; i++)
        told_done(&n->items[i]);
    free(n->items);
    *n = (struct entries){0};
}

static const struct told *entry_named(const struct entries *n, const char *name)
{
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->items[i].name, name) == 0)
            return &n->items[i];
    return NULL;
}

static struct spec *spec_of(const struct cdi *c, const char *vendor)
{
    for (size_t i = 0; vendor && i < c->n_specs; i++) {
        if (strcmp(c->specs[i].vendor->name, vendor) == 0)
            return &c->specs[i];
    }
    return NULL;
}

/* A draft that cannot be removed does no harm, since runtimes do not read files with its name. */
static void add_spec(struct cdi *c, const struct container_vendor *v)
{
    assert(v && !spec_of(c, v->name)); /* one file for each vendor */
    auto_free char *tail = xasprintf(".cleave.dev-%s.json", v->name);
    struct spec *s = XPUSH(c->specs, c->n_specs);
    s->vendor = v;
    s->path = xasprintf("%s/gpu%s", c->folder, tail);
    (void)!file_sweep(c->folder, tail, /* ret_n= */ NULL, /* e= */ NULL);
}

struct cdi *cdi_new(const struct cdi_options *o)
{
    struct cdi *c = xcalloc(1, sizeof(*c));
    c->folder = xstrdup(o->folder ? o->folder : CDI_FOLDER);
    c->host_root = xstrdup(o->host_root ? o->host_root : "/");
    c->hook = xstrdup(o->hook);
    c->second_folder = xstrdup(o->second_folder ? o->second_folder : DRIVER_SECOND_FOLDER);
    c->newer_hooks = o->newer_hooks;
    c->set_library_path = o->set_library_path;
    for (size_t i = 0; vendor_backends[i]; i++)
        add_spec(c, vendor_backends[i]->container);
    return c;
}

static void spec_done(struct spec *s)
{
    free(s->path);
    free(s->common);
    entries_done(&s->has);
}

struct cdi *cdi_free(struct cdi *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->n_specs; i++)
        spec_done(&c->specs[i]);
    free(c->specs);
    free(c->folder);
    free(c->host_root);
    free(c->hook);
    free(c->second_folder);
    free(c);
    return NULL;
}

const char *cdi_path(const struct cdi *c, const char *vendor)
{
    const struct spec *s = spec_of(c, vendor);
    return s ? s->path : NULL;
}

bool cdi_has(const struct cdi *c, const struct entry_device *d)
{
    const struct spec *s = spec_of(c, d->vendor);
    return s && entry_named(&s->has, d->cdi_name);
}

bool cdi_is_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || !isalnum((unsigned char)name[0]) || !isalnum((unsigned char)name[len - 1]))
        return false;
    for (const char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("_-.:", *c))
            return false;
    }
    return true;
}

int cdi_check_hook(const char *host_root, const char *hook, char **ret, struct err *e)
{
    auto_free char *path = NULL;
    auto_fd int fd = -1;
    struct stat st;
    TRY(rooted_open(host_root, hook, &path, &fd, e));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IXUSR))
        return err_set(e, ERR_NOT_FOUND, "%s is no program below %s", path, host_root);
    *ret = TAKE(path);
    return 0;
}

int cdi_set_common(struct cdi *c, const struct device_nodes *nodes,
                   const struct driver_files *files, struct err *e)
{
    assert(nodes);
    auto_free char *hook = NULL;
    int rc = c->hook ? cdi_check_hook(c->host_root, c->hook, &hook, e) : 0;
    const struct cdi_common_options o = {
        .hook = hook,
        .newer_hooks = c->newer_hooks,
        .second_folder = c->second_folder,
        .set_library_path = c->set_library_path,
    };
    for (size_t i = 0; i < c->n_specs; i++) {
        struct spec *s = &c->specs[i];
        auto_free char *before = s->common;
        s->common = cdi_common_render(s->vendor, &o, nodes, files);
        s->written &= before && strcmp(before, s->common) == 0;
    }
    return rc;
}

/* --- The text of a file --- */

/* A text being built: its devices, and why the first missing one is missing. */
struct draft {
    struct sb text;
    struct entries entries;
    struct err left_out;
};

static void draft_done(struct draft *d)
{
    sb_done(&d->text);
    entries_done(&d->entries);
    err_clear(&d->left_out);
}
AUTO_DEFINE(draft, struct draft, draft_done)

static int render_device(const struct device_nodes *nodes, const struct entry_device *d, char **ret,
                         struct err *e)
{
    if (!cdi_is_name(d->cdi_name))
        return err_set(e, ERR_INVALID, "\"%s\" is not a legal CDI device name", d->cdi_name);
    return cdi_device_render(nodes, d, /* together= */ NULL, 0, ret, e);
}

/* Adds the device, after a ',' unless it is the first. A device that cannot be described is
 * noted. */
static void add_device(struct draft *draft, const struct device_nodes *nodes,
                       const struct entry_device *d)
{
    auto_err struct err now = {0};
    auto_free char *text = NULL;
    if (render_device(nodes, d, &text, &now) < 0) {
        if (!draft->left_out.kind)
            (void)err_move(&draft->left_out, &now);
        return;
    }
    assert(!entry_named(&draft->entries, d->cdi_name));
    sb_addf(&draft->text, "%s\n%s", draft->entries.n ? "," : "", text);
    *XPUSH(draft->entries.items, draft->entries.n) =
        (struct told){xstrdup(d->cdi_name), TAKE(text)};
}

static bool is_of_vendor(const struct spec *s, const struct entry_device *d)
{
    return container_vendor_find(d->vendor) == s->vendor && !d->is_slot;
}

/* True when a device before the i-th has its name. */
static bool is_again(const struct spec *s, const struct entry_device *const *devices, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (devices[k] == devices[i] || (strcmp(devices[k]->cdi_name, devices[i]->cdi_name) == 0 &&
                                         is_of_vendor(s, devices[k])))
            return true;
    }
    return false;
}

static void render(const struct spec *s, const struct device_nodes *nodes,
                   const struct entry_device *const *devices, size_t n, struct draft *ret)
{
    cdi_spec_begin(&ret->text, s->vendor, s->common);
    for (size_t i = 0; i < n; i++) {
        if (is_of_vendor(s, devices[i]) && !is_again(s, devices, i))
            add_device(ret, nodes, devices[i]);
    }
    cdi_spec_end(&ret->text);
}

/* --- Files --- */

static bool same_entries(const struct entries *a, const struct entries *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; i < a->n && equal; i++)
        equal = strcmp(a->items[i].name, b->items[i].name) == 0 &&
                strcmp(a->items[i].text, b->items[i].text) == 0;
    return equal;
}

/* True while the file has these devices and is as it was written. A change by another program is
 * overwritten. */
static bool is_current(const struct spec *s, const struct entries *wanted)
{
    struct stat st;
    return s->written && same_entries(&s->has, wanted) && stat(s->path, &st) == 0 &&
           st.st_ino == s->seen.st_ino && st.st_size == s->seen.st_size &&
           st.st_mtim.tv_sec == s->seen.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == s->seen.st_mtim.tv_nsec;
}

static int write_file(const struct cdi *c, struct spec *s, const struct draft *draft, struct err *e)
{
    if (is_current(s, &draft->entries))
        return 0;
    s->written = false;
    TRY(file_make_dirs(c->folder, 0755, e));
    TRY(file_replace(s->path, sb_str(&draft->text), draft->text.len, 0644, e));
    s->written = stat(s->path, &s->seen) == 0;
    return 0;
}

/* Removes the file. Where there is none, a read-only folder is no error. */
static int remove_file(struct spec *s, struct err *e)
{
    struct stat st;
    s->written = false;
    return lstat(s->path, &st) == 0 ? file_remove(s->path, e) : 0;
}

/* After a failed write: forgets devices that changed under the same name, since the old file may
 * give another device's files for them. */
static void drop_outdated(struct entries *has, const struct entries *wanted)
{
    size_t n = 0;
    for (size_t i = 0; i < has->n; i++) {
        const struct told *now = entry_named(wanted, has->items[i].name);
        if (now && strcmp(now->text, has->items[i].text) == 0)
            has->items[n++] = has->items[i];
        else
            told_done(&has->items[i]);
    }
    assert(n <= has->n);
    has->n = n;
}

static int bring(const struct cdi *c, struct spec *s, const struct draft *draft, struct err *e)
{
    TRY(sb_check(&draft->text, e));
    return draft->entries.n ? write_file(c, s, draft, e) : remove_file(s, e);
}

/* Writes a vendor's file. *left_out gets the first device that cannot be described, unless it is
 * set. */
static int write_spec(const struct cdi *c, struct spec *s, const struct device_nodes *nodes,
                      const struct entry_device *const *devices, size_t n, struct err *left_out,
                      struct err *e)
{
    AUTO(draft) struct draft draft = {.text = SB_INIT(SPEC_BYTES)};
    render(s, nodes, devices, n, &draft);
    int rc = bring(c, s, &draft, e);
    if (rc < 0) {
        drop_outdated(&s->has, &draft.entries);
        return e ? err_wrap(e, "CDI spec") : rc;
    }
    assert(!draft.left_out.kind || draft.entries.n < n);
    entries_done(&s->has);
    s->has = draft.entries;
    draft.entries = (struct entries){0};
    if (draft.left_out.kind && !left_out->kind)
        (void)err_move(left_out, &draft.left_out);
    return 0;
}

static void check_vendors(const struct entry_device *const *devices, size_t n, struct err *left_out)
{
    for (size_t i = 0; i < n && !left_out->kind; i++) {
        if (!container_vendor_find(devices[i]->vendor))
            (void)err_set(left_out, ERR_INVALID, "%s is of an unknown vendor",
                          devices[i]->cdi_name);
    }
}

int cdi_write(struct cdi *c, const struct device_nodes *nodes,
              const struct entry_device *const *devices, size_t n, struct err *e)
{
    auto_err struct err failed = {0};
    assert(nodes && (devices || n == 0));
    auto_err struct err left_out = {0};
    for (size_t i = 0; i < c->n_specs; i++) {
        auto_err struct err now = {0};
        if (write_spec(c, &c->specs[i], nodes, devices, n, &left_out, &now) < 0 && !failed.kind)
            (void)err_move(&failed, &now);
    }
    check_vendors(devices, n, &left_out);
    if (failed.kind)
        return err_move(e, &failed);
    return left_out.kind ? err_move(e, &left_out) : 0;
}
