/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/plan_file.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/gpuprofile.h"
#include "api/kinds.h"
#include "api/label_value.h"
#include "api/migconfig.h"
#include "api/subdomain.h"
#include "nodeagent/commands/layout_check.h"
#include "nodeagent/commands/layout_documents.h"

enum { MAX_FILE_BYTES = 32 << 20 };

static int check_profile(const json_t *doc, struct err *e)
{
    auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
    TRY(gpuprofile_spec_decode(doc, &spec, e));
    return layout_check_profile(doc, &spec, e);
}

static int check_config(const json_t *doc, struct err *e)
{
    auto_migconfig_spec struct migconfig_spec spec = {0};
    TRY(migconfig_spec_decode(doc, &spec, e));
    return layout_check_config(doc, &spec, e);
}

/* Judges the values of the labels, which are all that a plan reads of a Node, as an API server does. */
static int check_node(const json_t *doc, struct err *e)
{
    const char *key;
    json_t *value;
    json_t *labels = (json_t *)(uintptr_t)JX_AT(doc, "metadata", "labels");
    if (labels && !json_is_object(labels))
        return err_set(e, ERR_INVALID, ".metadata.labels must be an object");
    json_object_foreach(labels, key, value) {
        const char *text = json_string_value(value);
        if (!text || !label_value_legal(text))
            return err_set(e, ERR_INVALID,
                           ".metadata.labels: the value of %s must be at most %d letters, digits, "
                           "'-', '_' and '.', and begin and end with a letter or digit",
                           key, LABEL_VALUE_MAX);
    }
    return 0;
}

/* --- Objects --- */

static const struct kind {
    const char *name, *version;
    int (*check)(const json_t *doc, struct err *e);
    size_t objects; /* the member of struct plan_file that holds them */
} kinds[] = {
    {"GPUProfile", API_GROUP_VERSION, check_profile, offsetof(struct plan_file, profiles)},
    {"MIGConfig", API_GROUP_VERSION, check_config, offsetof(struct plan_file, configs)},
    {"Node", "v1", check_node, offsetof(struct plan_file, nodes)},
};

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* Copies the members of these keys; null is absent. */
static void copy_members(const json_t *from, const char *const keys[], json_t *to)
{
    for (; *keys; keys++)
        if (jx_at(from, (const char *const[]){*keys, NULL}))
            (void)json_object_set(to, *keys, json_object_get(from, *keys));
}

/* The object with what a plan reads of it: the rest of a large cluster's Nodes takes much memory. */
static json_t *kept(const json_t *doc, const struct kind *k)
{
    static const char *const of_meta[] = {"name",       "uid",
                                          "labels",     "creationTimestamp",
                                          "generation", "deletionTimestamp",
                                          NULL};
    static const char *const of_all[] = {"apiVersion", "kind", NULL};
    static const char *const of_ours[] = {"spec", NULL};
    json_t *meta = json_object();
    json_t *ret = json_pack("{s:o}", "metadata", meta);
    copy_members(doc, of_all, ret);
    copy_members(JX_AT(doc, "metadata"), of_meta, meta);
    if (k->check != check_node)
        copy_members(doc, of_ours, ret);
    return ret;
}

static json_t *objects_of(const struct plan_file *f, const struct kind *k)
{
    json_t *objects;
    memcpy(&objects, (const char *)f + k->objects, sizeof(objects));
    return objects;
}

static int add_object(void *arg, const json_t *doc, struct err *e)
{
    struct plan_file *f = arg;
    const char *version = JX_STR_AT(doc, "apiVersion");
    const char *kind = JX_STR_AT(doc, "kind");
    const char *name = JX_STR_AT(doc, "metadata", "name");
    const struct kind *k = kind_of(kind);
    if (!k)
        return err_set(e, ERR_INVALID, "%s is none of GPUProfile, MIGConfig and Node",
                       kind ? kind : "an object without kind");
    if (!name || !*name)
        return err_set(e, ERR_INVALID, "%s: .metadata.name is missing", kind);
    if (!version || strcmp(version, k->version) != 0)
        return err_set(e, ERR_INVALID, "%s %s: apiVersion must be %s", kind, name, k->version);
    if (!subdomain_legal(name))
        return err_set(
            e, ERR_INVALID,
            "%s %s: .metadata.name must be at most %d small letters, digits, '-' and '.', "
            "and begin and end with a letter or digit",
            kind, name, SUBDOMAIN_MAX);
    if (k->check(doc, e) < 0)
        return err_wrap(e, "%s %s", kind, name);
    if (json_object_get(objects_of(f, k), name))
        return err_set(e, ERR_INVALID, "%s %s is there twice", kind, name);
    (void)json_object_set_new(objects_of(f, k), name, kept(doc, k));
    return 0;
}

/* --- Files --- */

static int add_text(const char *title, const char *text, size_t len, struct plan_file *ret,
                    struct err *e)
{
    size_t n;
    /* A longer text can only be JSON. */
    if (len <= YAML_MAX_BYTES && yaml_check_words(text, len, e) < 0)
        return err_wrap(e, "%s", title);
    return layout_documents_each(title, text, len, add_object, ret, &n, e);
}

static int add_file(const char *path, struct plan_file *ret, struct err *e)
{
    auto_free char *text = NULL;
    size_t len;
    TRY(file_read(path, MAX_FILE_BYTES, &text, &len, e));
    return add_text(file_title(path), text, len, ret, e);
}

static int is_taken(const struct dirent *entry)
{
    static const char *const endings[] = {".yaml", ".yml", ".json"};
    const char *ending = strrchr(entry->d_name, '.');
    for (size_t i = 0; ending && i < ARRAY_LEN(endings); i++)
        if (strcmp(ending, endings[i]) == 0)
            return 1;
    return 0;
}

static int add_folder(const char *path, struct plan_file *ret, struct err *e)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_taken, alphasort);
    int rc = n < 0 ? err_set_errno(e, errno, "read %s", path) : 0;
    for (int i = 0; i < n; i++) {
        auto_free char *file = xasprintf("%s/%s", path, entries[i]->d_name);
        if (rc == 0)
            rc = add_file(file, ret, e);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int add_path(const char *path, struct plan_file *ret, struct err *e)
{
    struct stat st;
    if (strncmp(path, "http://", 7) == 0 || strncmp(path, "https://", 8) == 0)
        return err_set(e, ERR_INVALID,
                       "%s: addresses are not read: curl -fsSL %s | kubectl cleave plan -f -", path,
                       path);
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return (folder ? add_folder : add_file)(path, ret, e);
}

/* Hands over what was added. title: where from. */
static int finish(const char *title, struct plan_file *f, struct plan_file *ret, struct err *e)
{
    if (json_object_size(f->profiles) + json_object_size(f->configs) + json_object_size(f->nodes) ==
        0)
        return err_set(e, ERR_INVALID, "%s: holds nothing", title);
    *ret = *f;
    *f = (struct plan_file){0};
    return 0;
}

int plan_file_parse(const char *title, const char *text, size_t len, struct plan_file *ret,
                    struct err *e)
{
    auto_plan_file struct plan_file f = {json_object(), json_object(), json_object()};
    TRY(add_text(title, text, len, &f, e));
    return finish(title, &f, ret, e);
}

int plan_file_read(const char *path, struct plan_file *ret, struct err *e)
{
    auto_plan_file struct plan_file f = {json_object(), json_object(), json_object()};
    TRY(add_path(path, &f, e));
    return finish(file_title(path), &f, ret, e);
}

/* --- What comes from them --- */

bool plan_file_brings(const struct plan_file *f, const struct node_view *v,
                      const struct device_source *source)
{
    const char *name;
    json_t *doc;
    if (source->kind == API_SOURCE_PROFILE && json_object_get(f->profiles, source->name))
        return true;
    if (source->kind == API_SOURCE_NODE_LABEL &&
        json_object_get(f->nodes, object_name(v->device_object)))
        return true;
    json_object_foreach(f->configs, name, doc) {
        const struct object *config = node_view_config(&v->configs, name);
        if (config && node_view_brings(v, source, config))
            return true;
    }
    return false;
}

void plan_file_done(struct plan_file *f)
{
    json_decref(f->profiles);
    json_decref(f->configs);
    json_decref(f->nodes);
    *f = (struct plan_file){0};
}
