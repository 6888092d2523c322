/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/plan_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/gpuprofile.h"
#include "api/kinds.h"
#include "api/migconfig.h"
#include "api/subdomain.h"
#include "nodeagent/commands/layout_check.h"
#include "nodeagent/commands/layout_documents.h"

enum { MAX_FILE_BYTES = 4 << 20 };

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

static bool names(const struct plan_file *f, const char *profile)
{
    size_t i;
    json_t *doc;
    json_array_foreach(f->profiles, i, doc) {
        if (strcmp(JX_STR_AT(doc, "metadata", "name"), profile) == 0)
            return true;
    }
    return false;
}

/* --- Objects --- */

static int add_object(void *arg, const json_t *doc, struct err *e)
{
    struct plan_file *f = arg;
    const char *version = JX_STR_AT(doc, "apiVersion");
    const char *kind = JX_STR_AT(doc, "kind");
    const char *name = JX_STR_AT(doc, "metadata", "name");
    bool is_profile = kind && strcmp(kind, "GPUProfile") == 0;
    if (!is_profile && !(kind && strcmp(kind, "MIGConfig") == 0))
        return err_set(e, ERR_INVALID, "%s is neither a GPUProfile nor a MIGConfig",
                       kind ? kind : "an object without kind");
    if (!name || !*name)
        return err_set(e, ERR_INVALID, "%s: .metadata.name is missing", kind);
    if (!version || strcmp(version, API_GROUP_VERSION) != 0)
        return err_set(e, ERR_INVALID, "%s %s: apiVersion must be %s", kind, name,
                       API_GROUP_VERSION);
    if (!subdomain_legal(name))
        return err_set(
            e, ERR_INVALID,
            "%s %s: .metadata.name must be at most %d small letters, digits, '-' and '.', "
            "and begin and end with a letter or digit",
            kind, name, SUBDOMAIN_MAX);
    if ((is_profile ? check_profile : check_config)(doc, e) < 0)
        return err_wrap(e, "%s %s", kind, name);
    if (is_profile && names(f, name))
        return err_set(e, ERR_INVALID, "GPUProfile %s is there twice", name);
    (void)json_array_append(is_profile ? f->profiles : f->configs, (json_t *)(uintptr_t)doc);
    return 0;
}

/* --- Files --- */

static int add_text(const char *title, const char *text, size_t len, struct plan_file *ret,
                    struct err *e)
{
    size_t n;
    if (yaml_check_words(text, len, e) < 0)
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
    if (json_array_size(f->profiles) + json_array_size(f->configs) == 0)
        return err_set(e, ERR_INVALID, "%s: holds nothing", title);
    *ret = *f;
    *f = (struct plan_file){0};
    return 0;
}

int plan_file_parse(const char *title, const char *text, size_t len, struct plan_file *ret,
                    struct err *e)
{
    auto_plan_file struct plan_file f = {json_array(), json_array()};
    TRY(add_text(title, text, len, &f, e));
    return finish(title, &f, ret, e);
}

int plan_file_read(const char *path, struct plan_file *ret, struct err *e)
{
    auto_plan_file struct plan_file f = {json_array(), json_array()};
    TRY(add_path(path, &f, e));
    return finish(file_title(path), &f, ret, e);
}

/* --- What comes from them --- */

bool plan_file_brings(const struct plan_file *f, const struct node_view *v,
                      const struct device_source *source)
{
    size_t i;
    json_t *doc;
    if (source->kind == API_SOURCE_PROFILE && names(f, source->name))
        return true;
    json_array_foreach(f->configs, i, doc) {
        const struct object *config =
            node_view_config(&v->configs, JX_STR_AT(doc, "metadata", "name"));
        if (config && node_view_brings(v, source, config))
            return true;
    }
    return false;
}

void plan_file_done(struct plan_file *f)
{
    json_decref(f->profiles);
    json_decref(f->configs);
    *f = (struct plan_file){0};
}
