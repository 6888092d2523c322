/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/checkpoint.h"

#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/plugin_messages.h"

/* As large as a PodResources answer may be: an entry holds the plugin's answer besides the ids. */
#define MAX_BYTES (16U << 20)
/* Device files of all answers. A node with hundreds of pods has some thousands. */
#define MAX_FILES 65536

static void free_devices(struct checkpoint_device *devices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(devices[i].resource);
        free(devices[i].id);
        free(devices[i].container);
        free(devices[i].uid);
    }
    free(devices);
}

static void free_files(char **files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(files[i]);
    free(files);
}

static void free_grants(struct checkpoint_grant *grants, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free_files(grants[i].files, grants[i].n_files);
    free(grants);
}

void checkpoint_done(struct checkpoint *c)
{
    free_devices(c->devices, c->n);
    free_grants(c->grants, c->n_grants);
    *c = (struct checkpoint){0};
}

static int add_ids(const json_t *entry, const json_t *ids, struct checkpoint *c, struct err *e)
{
    const char *uid = JX_STR_AT(entry, "PodUID");
    const char *resource = JX_STR_AT(entry, "ResourceName");
    size_t i;
    const json_t *id;
    if (!uid || !resource || (ids && !json_is_array(ids)))
        return err_set(e, ERR_INVALID, "an entry has no pod, no resource or no list of ids");
    json_array_foreach(ids, i, id) {
        if (!json_is_string(id))
            return err_set(e, ERR_INVALID, "the id of a device is no string");
        *XPUSH(c->devices, c->n) = (struct checkpoint_device){
            .resource = xstrdup(resource),
            .id = xstrdup(json_string_value(id)),
            .container = xstrdup(JX_STR_AT(entry, "ContainerName")),
            .uid = xstrdup(uid),
        };
    }
    return 0;
}

/* By NUMA node; before Kubernetes 1.20 a plain list. */
static int add_devices(const json_t *entry, struct checkpoint *c, struct err *e)
{
    const json_t *ids = JX_AT(entry, "DeviceIDs");
    if (!json_is_object(ids))
        return add_ids(entry, ids, c, e);
    const char *node;
    json_t *of_node;
    json_object_foreach((json_t *)(uintptr_t)ids, node, of_node)
        TRY(add_ids(entry, json_is_null(of_node) ? NULL : of_node, c, e));
    return 0;
}

/* An answer that cannot be read is another plugin's, or of a kubelet that writes it otherwise: the
 * devices count all the same. */
static void add_answer(const char *answer, struct checkpoint_grant *g, struct checkpoint *c)
{
    char **files = NULL;
    size_t n = 0;
    if (plugin_answer_files(answer, &files, &n, &g->is_marked, /* e= */ NULL) < 0)
        return;
    if (n > MAX_FILES - c->n_files) {
        free_files(files, n);
        return;
    }
    c->n_files += n;
    g->files = files;
    g->n_files = n;
}

static int add_entry(const json_t *entry, struct checkpoint *c, struct err *e)
{
    size_t first = c->n;
    TRY(add_devices(entry, c, e));
    if (c->n == first)
        return 0;
    struct checkpoint_grant *g = XPUSH(c->grants, c->n_grants);
    const char *answer = JX_STR_AT(entry, "AllocResp");
    g->first = first;
    g->n = c->n - first;
    if (answer)
        add_answer(answer, g, c);
    return 0;
}

int checkpoint_parse(const char *text, size_t len, struct checkpoint *c, struct err *e)
{
    auto_json json_t *json = NULL;
    auto_checkpoint struct checkpoint read = {.seen = c->seen};
    TRY(jx_parse(text, len, MAX_BYTES, &json, e));
    const json_t *data = JX_AT(json, "Data");
    const json_t *entries = JX_AT(data, "PodDeviceEntries");
    if (!json_is_object(data) || (entries && !json_is_array(entries)))
        return err_set(e, ERR_INVALID, "the kubelet's checkpoint has no list of entries");
    size_t i;
    const json_t *entry;
    json_array_foreach(entries, i, entry)
        TRY(add_entry(entry, &read, e));
    checkpoint_done(c);
    *c = read;
    read = (struct checkpoint){0};
    return 0;
}

/* The kubelet replaces the file by a rename. An inode may be reused, but with another time. */
static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_nlink && a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Nothing but a regular file: the opening or the reading of a pipe would hold the loop for ever.
 * *ret_fd -1: there is no file. */
static int open_file(const char *path, int *ret_fd, struct stat *ret, struct err *e)
{
    auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *ret_fd = -1;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0 && errno != ELOOP)
        return err_set_errno(e, errno, "open %s", path);
    if (fd >= 0 && fstat(fd, ret) < 0)
        return err_set_errno(e, errno, "%s", path);
    if (fd < 0 || !S_ISREG(ret->st_mode))
        return err_set(e, ERR_INVALID, "%s is no regular file", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int checkpoint_refresh(struct checkpoint *c, const char *path, struct err *e)
{
    struct stat now;
    auto_fd int fd = -1;
    auto_free char *text = NULL;
    size_t len;
    TRY(open_file(path, &fd, &now, e));
    if (fd < 0) {
        checkpoint_done(c);
        return 0;
    }
    if (same_file(&c->seen, &now))
        return 0;
    TRY(file_read_fd(fd, path, MAX_BYTES, &text, &len, e));
    if (checkpoint_parse(text, len, c, e) < 0)
        return err_wrap(e, "%s", path);
    c->seen = now; /* a file that changed meanwhile is read once more */
    return 0;
}
