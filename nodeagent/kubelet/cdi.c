/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/cdi.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/cdi_common.h"
#include "nodeagent/kubelet/rooted.h"

#define FOLDER     "/var/run/cdi"
#define FILE_TAIL  ".cleave.dev-nvidia.json"
#define FILE_NAME  "gpu" FILE_TAIL
#define SPEC_BYTES ((size_t)16 << 20)

struct cdi {
    char *folder, *path, *host_root, *hook, *second_folder;
    bool newer_hooks, set_library_path;
    char *common;     /* JSON of containerEdits; NULL: not made yet */
    char *written;    /* what the file says, as far as known; NULL: not known */
    struct stat seen; /* of the file when it was written */
};

struct cdi *cdi_new(const struct cdi_options *o)
{
    struct cdi *c = xcalloc(1, sizeof(*c));
    c->folder = xstrdup(o->folder ? o->folder : FOLDER);
    c->path = xasprintf("%s/%s", c->folder, FILE_NAME);
    c->host_root = xstrdup(o->host_root ? o->host_root : "/");
    c->hook = xstrdup(o->hook);
    c->second_folder = xstrdup(o->second_folder ? o->second_folder : CDI_SECOND_FOLDER);
    c->newer_hooks = o->newer_hooks;
    c->set_library_path = o->set_library_path;
    /* A draft that cannot be removed is no harm: its name is none of a spec. */
    (void)!file_sweep(c->folder, FILE_TAIL, /* ret_n= */ NULL, /* e= */ NULL);
    return c;
}

struct cdi *cdi_free(struct cdi *c)
{
    if (!c)
        return NULL;
    free(c->folder);
    free(c->path);
    free(c->host_root);
    free(c->hook);
    free(c->second_folder);
    free(c->common);
    free(c->written);
    free(c);
    return NULL;
}

const char *cdi_path(const struct cdi *c)
{
    return c->path;
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

static int check_owner(const char *seen, struct err *e)
{
    struct stat st;
    if (stat(seen, &st) < 0)
        return err_set(e, ERR_NOT_FOUND, "%s: %s", seen, strerror(errno));
    if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return err_set(e, ERR_FORBIDDEN, "%s is not run: others than root may change it", seen);
    return 0;
}

/* The root itself, then each folder of the path, then the program. */
static int check_owners(const char *host_root, const char *path, struct err *e)
{
    TRY(check_owner(host_root[0] ? host_root : "/", e));
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        auto_free char *part = xstrndup(path, (size_t)(slash - path));
        auto_free char *seen = rooted_join(host_root, part);
        TRY(check_owner(seen, e));
    }
    auto_free char *program = rooted_join(host_root, path);
    return check_owner(program, e);
}

int cdi_check_hook(const char *host_root, const char *hook, char **ret, struct err *e)
{
    auto_free char *path = NULL;
    struct stat st;
    TRY(rooted_resolve(host_root, hook, &path, e));
    auto_free char *seen = rooted_join(host_root, path);
    if (stat(seen, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IXUSR))
        return err_set(e, ERR_NOT_FOUND, "%s is no program", seen);
    TRY(check_owners(host_root, path, e));
    *ret = TAKE(path);
    return 0;
}

int cdi_set_common(struct cdi *c, const struct device_nodes *nodes,
                   const struct driver_files *files, struct err *e)
{
    auto_free char *hook = NULL;
    int rc = c->hook ? cdi_check_hook(c->host_root, c->hook, &hook, e) : 0;
    const struct cdi_common_options o = {
        .hook = hook,
        .newer_hooks = c->newer_hooks,
        .second_folder = c->second_folder,
        .set_library_path = c->set_library_path,
    };
    free(c->common);
    c->common = cdi_common_render(&o, nodes, files);
    return rc;
}

/* Adds ',' before all but the first, then the device; a device that cannot be told is noted. */
static void add_device(struct sb *out, const struct device_nodes *nodes,
                       const struct entry_device *d, bool *is_first, struct err *first)
{
    struct err now = {0};
    auto_free char *text = NULL;
    int rc = cdi_is_name(d->cdi_name)
                 ? cdi_device_render(nodes, d, &text, &now)
                 : err_set(&now, ERR_INVALID, "\"%s\" is no device name of CDI", d->cdi_name);
    if (rc < 0) {
        if (!first->kind)
            (void)err_move(first, &now);
        err_clear(&now);
        return;
    }
    sb_addf(out, "%s\n%s", *is_first ? "" : ",", text);
    *is_first = false;
}

static bool is_again(const struct entry_device *const *devices, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (devices[k] == devices[i] || strcmp(devices[k]->cdi_name, devices[i]->cdi_name) == 0)
            return true;
    }
    return false;
}

/* The whole text; *ret_none when no device is in it. */
static int render(const struct cdi *c, const struct device_nodes *nodes,
                  const struct entry_device *const *devices, size_t n, struct sb *out,
                  bool *ret_none, struct err *first)
{
    bool is_first = true;
    sb_addf(out,
            "{\"cdiVersion\":\"0.5.0\",\"kind\":\"%s\",\n\"containerEdits\":%s,\n\"devices\":[",
            ENTRY_CDI_KIND, c->common ? c->common : "{}");
    for (size_t i = 0; i < n; i++) {
        if (!is_again(devices, i))
            add_device(out, nodes, devices[i], &is_first, first);
    }
    sb_add(out, "]}\n");
    *ret_none = is_first;
    return sb_check(out, first);
}

/* Does the file stand as it was written? Whoever else writes there is put right. */
static bool is_current(const struct cdi *c, const char *text)
{
    struct stat st;
    return c->written && strcmp(c->written, text) == 0 && stat(c->path, &st) == 0 &&
           st.st_ino == c->seen.st_ino && st.st_size == c->seen.st_size &&
           st.st_mtim.tv_sec == c->seen.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == c->seen.st_mtim.tv_nsec;
}

static int write_file(struct cdi *c, const char *text, struct err *e)
{
    if (is_current(c, text))
        return 0;
    xstr_set(&c->written, NULL);
    TRY(file_make_dirs(c->folder, 0755, e));
    TRY(file_replace(c->path, text, strlen(text), 0644, e));
    if (stat(c->path, &c->seen) == 0)
        c->written = xstrdup(text);
    return 0;
}

static int remove_file(struct cdi *c, struct err *e)
{
    xstr_set(&c->written, NULL);
    return file_remove(c->path, e);
}

int cdi_write(struct cdi *c, const struct device_nodes *nodes,
              const struct entry_device *const *devices, size_t n, struct err *e)
{
    auto_sb struct sb text = SB_INIT(SPEC_BYTES);
    auto_err struct err first = {0};
    bool none = false;
    if (render(c, nodes, devices, n, &text, &none, &first) < 0)
        return err_move(e, &first);
    int rc = none ? remove_file(c, e) : write_file(c, sb_str(&text), e);
    if (rc < 0)
        return e ? err_wrap(e, "CDI spec") : rc;
    return first.kind ? err_move(e, &first) : 0;
}
