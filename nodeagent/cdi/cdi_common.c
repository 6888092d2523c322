/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/cdi/cdi_common.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/container/driver_mounts.h"
#include "nodeagent/vendor/container_vendors.h"

static char *dump(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    assert(text);
    return text;
}

/* Adds a text. JSON cannot hold file names that are not UTF-8; such a file is left out. */
static void add_string(json_t *list, const char *text)
{
    json_t *s = json_string(text);
    if (s)
        json_array_append_new(list, s);
}

static void add_node(json_t *list, const char *host_root, const char *path)
{
    auto_free char *host = xasprintf("%s%s", host_root, path);
    json_t *node = json_pack("{s:s?}", "path", path);
    if (strcmp(host, path) != 0)
        json_object_set_new(node, "hostPath", json_string(host));
    json_object_set_new(node, "permissions", json_string("rw"));
    json_array_append_new(list, node);
}

static json_t *new_nodes(const struct device_paths *nodes)
{
    assert(nodes->host_root || nodes->n == 0);
    json_t *list = json_array();
    for (size_t i = 0; i < nodes->n; i++)
        add_node(list, nodes->host_root, nodes->paths[i]);
    return list;
}

static json_t *common_nodes(const struct container_vendor *v, const struct device_nodes *nodes)
{
    auto_device_paths struct device_paths list = {0};
    v->common_paths(nodes, &list);
    return new_nodes(&list);
}

/* How a file or folder is mounted, besides its paths. */
struct mount_way {
    bool writable, no_exec;
};

static void add_mount(json_t *list, const char *host_path, const char *container_path,
                      struct mount_way way)
{
    json_t *mount = json_pack("{s:s, s:s, s:[s,s,s,s,s]}", "hostPath", host_path, "containerPath",
                              container_path, "options", way.writable ? "rw" : "ro", "nosuid",
                              "nodev", "rbind", "rprivate");
    if (!mount)
        return;
    if (way.no_exec)
        add_string(json_object_get(mount, "options"), "noexec");
    json_array_append_new(list, mount);
}

/* The last part of a path. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- The limiter --- */

bool cdi_can_limit(const char *vendor, const struct driver_files *files)
{
    const struct container_vendor *v = container_vendor_find(vendor);
    for (const struct container_shim *s = v ? v->shims : NULL; files && s && s->library; s++)
        if (!driver_files_have(files, s->library))
            return false;
    return files && v && v->shims;
}

/* What takes the place of the driver's libraries; owned. */
struct shims {
    struct driver_substitute *items;
    char **paths;
    size_t n;
};

static void shims_done(struct shims *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->paths[i]);
    free(s->paths);
    free(s->items);
}
AUTO_DEFINE(shims, struct shims, shims_done)

static void list_shims(const struct container_vendor *v, const char *limiter, struct shims *ret)
{
    for (const struct container_shim *s = limiter ? v->shims : NULL; s && s->library; s++) {
        size_t n = ret->n;
        char *path = *XPUSH(ret->paths, n) = xasprintf("%s/%s", limiter, s->file);
        *XPUSH(ret->items, ret->n) = (struct driver_substitute){s->library, path, s->real_at};
    }
}

/* --- Mounts --- */

/* Without a hook to make links, each name of a library is a mount of it. */
static void add_driver(const struct container_vendor *v, const struct cdi_common_options *o,
                       const struct driver_files *files, json_t *list)
{
    auto_driver_mounts struct driver_mounts all;
    AUTO(shims) struct shims shims = {0};
    list_shims(v, o->limiter, &shims);
    const struct driver_substitutes substitutes = {shims.items, shims.n};
    driver_mounts_list(files, /* names= */ !o->hook, o->second_folder, &substitutes, &all);
    for (size_t i = 0; i < all.n; i++)
        add_mount(list, all.items[i].host_path, all.items[i].container_path,
                  (struct mount_way){.no_exec = all.items[i].no_exec});
}

/* files NULL: the driver's are not mounted. */
static json_t *mounts(const struct container_vendor *v, const struct cdi_common_options *o,
                      const struct driver_files *files)
{
    json_t *list = json_array();
    if (files)
        add_driver(v, o, files, list);
    for (size_t i = 0; i < o->n_mounts; i++)
        add_mount(list, o->mounts[i].host_path, o->mounts[i].container_path,
                  (struct mount_way){.writable = !o->mounts[i].read_only, .no_exec = true});
    return list;
}

/* nvidia-ctk has the same hooks as a subcommand (internal/discover/hooks.go). */
static json_t *new_hook_args(const char *program, const char *verb)
{
    const char *name = base_of(program);
    json_t *args = json_array();
    add_string(args, name);
    if (strcmp(name, "nvidia-ctk") == 0)
        add_string(args, "hook");
    add_string(args, verb);
    return args;
}

static void add_hook(json_t *list, const char *program, json_t *args_take)
{
    json_t *hook = json_pack("{s:s, s:s, s:o}", "hookName", "createContainer", "path", program,
                             "args", args_take);
    if (hook)
        json_array_append_new(list, hook);
}

static void add_links_hook(json_t *list, const char *program, const struct driver_files *files)
{
    json_t *args = new_hook_args(program, "create-symlinks");
    for (size_t i = 0; i < files->n_links; i++) {
        auto_free char *link = xasprintf("%s::%s", files->links[i].target, files->links[i].path);
        add_string(args, "--link");
        add_string(args, link);
    }
    add_hook(list, program, args);
}

static void add_ldcache_hook(json_t *list, const char *program, const struct driver_files *files)
{
    json_t *args = new_hook_args(program, "update-ldcache");
    for (size_t i = 0; i < files->n_library_folders; i++) {
        add_string(args, "--folder");
        add_string(args, files->library_folders[i]);
    }
    add_hook(list, program, args);
}

/* The image's own libcuda, where it is a newer one, would take the limiter's place. */
static json_t *hooks(const struct cdi_common_options *o, const struct driver_files *files)
{
    assert(o->hook);
    json_t *list = json_array();
    if (files->n_links)
        add_links_hook(list, o->hook, files);
    if (o->newer_hooks && !o->limiter)
        add_hook(list, o->hook, new_hook_args(o->hook, "enable-cuda-compat"));
    add_ldcache_hook(list, o->hook, files);
    if (o->newer_hooks)
        add_hook(list, o->hook, new_hook_args(o->hook, "disable-device-node-modification"));
    return list;
}

static json_t *environment(const struct container_vendor *v, const struct cdi_common_options *o)
{
    json_t *env = json_array();
    if (v->common_env)
        add_string(env, v->common_env);
    if (v->mounts_driver && o->set_library_path && !o->hook && o->second_folder[0]) {
        auto_free char *path = xasprintf("LD_LIBRARY_PATH=%s", o->second_folder);
        add_string(env, path);
    }
    for (size_t i = 0; i < o->n_envs; i++) {
        auto_free char *text = xasprintf("%s=%s", o->envs[i].key, o->envs[i].value);
        add_string(env, text);
    }
    return env;
}

/* CDI allows empty lists, but older runtimes reject them. */
static void set_list(json_t *edits, const char *key, json_t *list_take)
{
    if (json_array_size(list_take) > 0)
        json_object_set_new(edits, key, list_take);
    else
        json_decref(list_take);
}

char *cdi_common_render(const struct container_vendor *v, const struct cdi_common_options *o,
                        const struct device_nodes *nodes, const struct driver_files *files)
{
    assert(o->second_folder);
    auto_json json_t *edits = json_object();
    set_list(edits, "env", environment(v, o));
    set_list(edits, "deviceNodes", common_nodes(v, nodes));
    if (!v->mounts_driver)
        files = NULL;
    set_list(edits, "mounts", mounts(v, o, files));
    if (files && o->hook)
        set_list(edits, "hooks", hooks(o, files));
    return dump(edits);
}

static int device_env(const struct container_vendor *v, const struct entry_device *const *together,
                      size_t n, json_t *env, struct err *e)
{
    const char *key = NULL;
    auto_free char *value = NULL;
    if (!v->device_env)
        return 0;
    TRY(v->device_env(together, n, &key, &value, e));
    auto_free char *text = key ? xasprintf("%s=%s", key, value) : NULL;
    if (text)
        add_string(env, text);
    return 0;
}

static size_t position_of(const struct entry_device *d, const struct entry_device *const *together,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (together[i] == d)
            return i;
    return 0;
}

static void share_env(const struct container_vendor *v, const struct entry_device *d,
                      size_t position, json_t *env)
{
    auto_entry struct entry said = {0};
    if (!v->share_env || !d->has_slice)
        return;
    v->share_env(d, position, &said);
    for (size_t i = 0; i < said.n_envs; i++) {
        auto_free char *text = xasprintf("%s=%s", said.envs[i].key, said.envs[i].value);
        add_string(env, text);
    }
}

int cdi_device_render(const struct device_nodes *nodes, const struct entry_device *d,
                      const struct entry_device *const *together, size_t n, char **ret,
                      struct err *e)
{
    auto_device_paths struct device_paths list = {0};
    auto_json json_t *env = json_array();
    auto_json json_t *edits = json_object();
    const struct container_vendor *v = container_vendor_find(d->vendor);
    if (!v)
        return err_set(e, ERR_INVALID, "%s is of an unknown vendor", d->cdi_name);
    TRY(v->paths_of(nodes, d, &list, e));
    TRY(device_env(v, n ? together : &d, n ? n : 1, env, e));
    share_env(v, d, position_of(d, together, n), env);
    set_list(edits, "env", json_incref(env));
    set_list(edits, "deviceNodes", new_nodes(&list));
    auto_json json_t *device =
        json_pack("{s:s, s:O}", "name", d->cdi_name, "containerEdits", edits);
    assert(device); /* the callers have checked its name */
    *ret = dump(device);
    return 0;
}

void cdi_spec_begin(struct sb *out, const struct container_vendor *v, const char *common)
{
    assert(out->len == 0);
    sb_addf(out,
            "{\"cdiVersion\":\"0.5.0\",\"kind\":\"%s\",\n\"containerEdits\":%s,\n\"devices\":[",
            v->cdi_kind, common ? common : "{}");
}

void cdi_spec_end(struct sb *out)
{
    sb_add(out, "]}\n");
}
