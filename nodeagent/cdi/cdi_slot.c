/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/cdi_slot.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/cdi.h"
#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/vendor/container_vendors.h"

#define MARK       "slot."
#define SPEC_BYTES ((size_t)64 * 1024)

struct cdi_slots {
    const struct container_vendor *vendor;
    char *folder;
    char *tail; /* the end of a file name, after the slot's name */
};

/* --- Names --- */

bool cdi_slot_parse(const char *name, unsigned *ret_slot)
{
    int64_t slot = 0;
    if (strncmp(name, MARK, strlen(MARK)) != 0)
        return false;
    const char *digits = name + strlen(MARK);
    /* Each slot has one spelling, that of cdi_slot_name: neither "-0" nor "00". */
    if (digits[0] == '-' || (digits[0] == '0' && digits[1]) ||
        num_parse(digits, 0, CDI_MAX_SLOTS - 1, &slot, /* e= */ NULL) < 0)
        return false;
    if (ret_slot)
        *ret_slot = (unsigned)slot;
    return true;
}

char *cdi_slot_name(unsigned slot)
{
    assert(slot < CDI_MAX_SLOTS);
    return xasprintf(MARK "%u", slot);
}

static int check_name(const char *name, struct err *e)
{
    if (cdi_slot_parse(name, /* ret_slot= */ NULL))
        return 0;
    return err_set(e, ERR_INVALID, "\"%.200s\" is not a slot's name, such as slot.3", name);
}

static char *path_of(const struct cdi_slots *s, const char *name)
{
    return xasprintf("%s/%s%s", s->folder, name, s->tail);
}

/* --- Life --- */

struct cdi_slots *cdi_slots_new(const char *folder, const char *vendor)
{
    struct cdi_slots *s = xcalloc(1, sizeof(*s));
    s->vendor = container_vendor_find(vendor);
    assert(s->vendor);
    s->folder = xstrdup(folder ? folder : CDI_FOLDER);
    s->tail = xasprintf(".gpu.cleave.dev-%s-slot.json", vendor);
    /* A draft that cannot be removed does no harm, since runtimes do not read files with its
     * name. */
    (void)!file_sweep(s->folder, s->tail, /* ret_n= */ NULL, /* e= */ NULL);
    return s;
}

struct cdi_slots *cdi_slots_free(struct cdi_slots *s)
{
    if (!s)
        return NULL;
    free(s->folder);
    free(s->tail);
    free(s);
    return NULL;
}

/* --- Writing --- */

static int check_device(const struct cdi_slots *s, const struct entry_device *d, struct err *e)
{
    TRY(check_name(d->cdi_name, e));
    if (container_vendor_find(d->vendor) != s->vendor)
        return err_set(e, ERR_INVALID, "%s is no device of %s", d->cdi_name, s->vendor->name);
    if (d->is_slot)
        return err_set(e, ERR_INVALID, "%s: the slot has no slice yet", d->cdi_name);
    return 0;
}

/* The file includes everything that all containers get, because the vendor's main file may be
 * removed. */
static int render(const struct cdi_slots *s, const struct device_nodes *nodes,
                  const struct entry_device *d, const struct entry_device *const *together,
                  size_t n, struct sb *ret, struct err *e)
{
    const struct cdi_common_options none = {.second_folder = ""};
    auto_free char *common = cdi_common_render(s->vendor, &none, nodes, /* files= */ NULL);
    auto_free char *device = NULL;
    TRY(cdi_device_render(nodes, d, together, n, &device, e));
    cdi_spec_begin(ret, s->vendor, common);
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

static int write_file(const struct cdi_slots *s, const char *name, const char *text, struct err *e)
{
    assert(cdi_slot_parse(name, /* ret_slot= */ NULL));
    auto_free char *path = path_of(s, name);
    if (says(path, text))
        return 0;
    TRY(file_make_dirs(s->folder, 0755, e));
    return file_write_atomic(path, text, strlen(text), 0644, e);
}

int cdi_slots_write(const struct cdi_slots *s, const struct device_nodes *nodes,
                    const struct entry_device *d, const struct entry_device *const *together,
                    size_t n, struct err *e)
{
    auto_sb struct sb text = SB_INIT(SPEC_BYTES);
    TRY(check_device(s, d, e));
    TRY(render(s, nodes, d, together, n, &text, e));
    int rc = write_file(s, d->cdi_name, sb_str(&text), e);
    return rc < 0 && e ? err_wrap(e, "CDI spec of %s", d->cdi_name) : rc;
}

int cdi_slots_remove(const struct cdi_slots *s, const char *name, struct err *e)
{
    TRY(check_name(name, e));
    auto_free char *path = path_of(s, name);
    int rc = file_remove(path, e);
    return rc < 0 && e ? err_wrap(e, "CDI spec of %s", name) : rc;
}

/* --- Listing --- */

/* The slot's name in a file name; NULL: not a slot's file. */
static char *name_in(const struct cdi_slots *s, const char *file)
{
    size_t len = strlen(file);
    size_t tail = strlen(s->tail);
    if (len <= tail || strcmp(file + len - tail, s->tail) != 0)
        return NULL;
    auto_free char *name = xstrndup(file, len - tail);
    bool is_slot = cdi_slot_parse(name, /* ret_slot= */ NULL);
    return is_slot ? TAKE(name) : NULL;
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
    while (dir && names.n < CDI_MAX_SLOTS && (entry = readdir(dir)) != NULL) {
        char *name = name_in(s, entry->d_name);
        if (name)
            *XPUSH(names.items, names.n) = name;
    }
    if (names.n)
        qsort(names.items, names.n, sizeof(*names.items), by_name);
    assert(names.n <= CDI_MAX_SLOTS);
    *ret = names;
    return 0;
}

void cdi_slot_names_done(struct cdi_slot_names *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->items[i]);
    free(n->items);
    *n = (struct cdi_slot_names){0};
}
