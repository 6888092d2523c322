/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/plan_file.h"

#include <string.h>

#include "base/file.h"
#include "base/jx.h"

#include "api/gpuprofile.h"
#include "api/kinds.h"
#include "api/migconfig.h"
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
    if ((is_profile ? check_profile : check_config)(doc, e) < 0)
        return err_wrap(e, "%s %s", kind, name);
    if (is_profile && names(f, name))
        return err_set(e, ERR_INVALID, "GPUProfile %s is there twice", name);
    (void)json_array_append(is_profile ? f->profiles : f->configs, (json_t *)(uintptr_t)doc);
    return 0;
}

int plan_file_parse(const char *title, const char *text, size_t len, struct plan_file *ret,
                    struct err *e)
{
    size_t n;
    auto_plan_file struct plan_file f = {json_array(), json_array()};
    TRY(layout_documents_each(title, text, len, add_object, &f, &n, e));
    if (json_array_size(f.profiles) + json_array_size(f.configs) == 0)
        return err_set(e, ERR_INVALID, "%s: holds nothing", title);
    *ret = f;
    f = (struct plan_file){0};
    return 0;
}

int plan_file_read(const char *path, struct plan_file *ret, struct err *e)
{
    auto_free char *text = NULL;
    size_t len;
    TRY(file_read(path, MAX_FILE_BYTES, &text, &len, e));
    return plan_file_parse(file_title(path), text, len, ret, e);
}

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
