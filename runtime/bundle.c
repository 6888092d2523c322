/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/bundle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "nodeagent/container/grant_mark.h"
#include "nodeagent/container/rooted.h"
#include "runtime/description.h"
#include "runtime/oci_config.h"

/* --- Is it one of ours? --- */

/* Whether the file has the marks' source in it anywhere, of whatever size it is. Shims write a path
 * as it is, so that most containers, which have none, are passed on without being understood. */
static int has_text(int fd, const char *text, bool *ret, struct err *e)
{
    char buf[64 << 10];
    size_t keep = 0;
    size_t len = strlen(text);
    *ret = false;
    for (;;) {
        ssize_t n = read(fd, buf + keep, sizeof(buf) - keep);
        if (n < 0)
            return err_set_errno(e, errno, "read");
        *ret = memmem(buf, keep + (size_t)n, text, len) != NULL;
        if (n == 0 || *ret)
            return 0;
        keep += (size_t)n;
        size_t next = keep < len - 1 ? keep : len - 1;
        memmove(buf, buf + keep - next, next);
        keep = next;
    }
}

static int has_marks(const char *path, bool *ret, struct err *e)
{
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret = false;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_set_errno(e, errno, "open %s", path);
    return has_text(fd, GRANT_SOURCE, ret, e);
}

/* --- Descriptions --- */

/* The description of one device, or of several that are in the same file. */
struct source {
    char *path; /* owned, as all of it */
    json_t *json;
    const json_t **edits; /* what of it is applied, in this order */
    size_t n;
};

struct sources {
    struct source *items;
    size_t n;
};

static void sources_done(struct sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->items[i].path);
        free(s->items[i].edits);
        json_decref(s->items[i].json);
    }
    free(s->items);
}
AUTO_DEFINE(sources, struct sources, sources_done)

static int read_description(const char *path, const char *vendor, json_t **ret, struct err *e)
{
    char again[32];
    auto_free char *real = NULL;
    auto_free char *text = NULL;
    auto_fd int fd = -1;
    size_t len = 0;
    TRY(rooted_open("/", path, &real, &fd, e));
    (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
    TRY(file_read(again, DESCRIPTION_BYTES, &text, &len, e));
    return description_parse(text, len, vendor, ret, e);
}

/* Adds the file, with what every container gets of it. */
static int open_source(struct sources *s, const char *path, const char *vendor, struct source **ret,
                       struct err *e)
{
    auto_json json_t *json = NULL;
    for (size_t i = 0; i < s->n; i++) {
        *ret = &s->items[i];
        if (strcmp(s->items[i].path, path) == 0)
            return 0;
    }
    TRY(read_description(path, vendor, &json, e));
    struct source *new = XPUSH(s->items, s->n);
    new->path = xstrdup(path);
    new->json = TAKE(json);
    if (description_common(new->json))
        *XPUSH(new->edits, new->n) = description_common(new->json);
    *ret = new;
    return 0;
}

static int find_device(struct sources *s, const char *path, const struct grant_mark *m,
                       struct err *e)
{
    struct source *source = NULL;
    const json_t *edits = NULL;
    TRY(open_source(s, path, m->vendor, &source, e));
    TRY(description_device(source->json, m->name, &edits, e));
    *XPUSH(source->edits, source->n) = edits;
    return 0;
}

static int find_devices(const char *folder, const struct grant_mark *grants, size_t n,
                        struct sources *ret, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        auto_free char *path = description_path(folder, &grants[i]);
        int rc = find_device(ret, path, &grants[i], e);
        if (rc == -ERR_NOT_FOUND)
            return err_wrap(e,
                            "device %s of %s, which the container was granted, is not described "
                            "(now), and cleave-agent on this node says why; the kubelet tries "
                            "again: %s",
                            grants[i].name, grants[i].vendor, path);
        if (rc < 0)
            return err_wrap(e, "device %s of %s: %s", grants[i].name, grants[i].vendor, path);
    }
    return 0;
}

/* --- The whole --- */

static int look(void *arg, const char *path, struct oci_node *ret, struct err *e)
{
    struct stat st;
    (void)arg;
    if (lstat(path, &st) < 0)
        return err_set(e, ERR_NOT_FOUND, "device file %s: %s", path, strerror(errno));
    if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is no device file", path);
    *ret = (struct oci_node){S_ISCHR(st.st_mode) ? 'c' : 'b', major(st.st_rdev), minor(st.st_rdev)};
    return 0;
}

static int apply(json_t *config, const struct sources *s, struct err *e)
{
    for (size_t i = 0; i < s->n; i++)
        oci_drop_others(config, s->items[i].json, s->items[i].edits, s->items[i].n);
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->items[i].n; k++)
            TRY(oci_apply(config, s->items[i].edits[k], look, /* arg= */ NULL, e));
    oci_remove_marks(config);
    return 0;
}

/* With the owner and the mode that it had: a container in a user namespace may have to read it. */
static int write_config(const char *path, const json_t *config, struct err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return err_set_errno(e, errno, "%s", path);
    auto_free char *text = json_dumps(config, JSON_COMPACT);
    if (!text)
        xalloc_failed();
    TRY(file_replace(path, text, strlen(text), st.st_mode & 0777U, e));
    return chown(path, st.st_uid, st.st_gid) == 0 ? 0 : err_set_errno(e, errno, "chown %s", path);
}

static int bring(const char *path, const char *cdi_folder, struct err *e)
{
    auto_free char *text = NULL;
    auto_json json_t *config = NULL;
    auto_free struct grant_mark *grants = NULL;
    AUTO(sources) struct sources sources = {0};
    size_t len = 0;
    size_t n = 0;
    TRY(file_read(path, BUNDLE_CONFIG_BYTES, &text, &len, e));
    TRY(jx_parse(text, len, BUNDLE_CONFIG_BYTES, &config, e));
    TRY(oci_grants(config, &grants, &n, e));
    if (n == 0)
        return 0;
    TRY(find_devices(cdi_folder, grants, n, &sources, e));
    TRY(apply(config, &sources, e));
    return write_config(path, config, e);
}

int bundle_bring(const char *bundle, const char *cdi_folder, struct err *e)
{
    bool ours = false;
    assert(bundle && cdi_folder);
    auto_free char *path = xasprintf("%s/config.json", bundle);
    TRY(has_marks(path, &ours, e));
    if (!ours)
        return 0;
    int rc = bring(path, cdi_folder, e);
    return rc < 0 ? err_wrap(e, "%s", path) : rc;
}
