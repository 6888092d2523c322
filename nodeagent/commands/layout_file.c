/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/layout_file.h"

#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "interop/migparted.h"
#include "nodeagent/commands/layout_check.h"
#include "nodeagent/commands/layout_documents.h"

enum { MAX_FILE_BYTES = 4 << 20 };

static int add_profile(const json_t *doc, const char *name, struct layout_file *f, struct err *e)
{
    auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
    TRY(gpuprofile_spec_decode(doc, &spec, e));
    TRY(layout_check_profile(doc, &spec, e));
    XPUSH(f->profiles, f->n_profiles)->spec = spec;
    f->profiles[f->n_profiles - 1].name = xstrdup(name);
    spec = (struct gpuprofile_spec){0};
    return 0;
}

static int add_config(const json_t *doc, const char *name, struct layout_file *f, struct err *e)
{
    auto_migconfig_spec struct migconfig_spec spec = {0};
    TRY(migconfig_spec_decode(doc, &spec, e));
    TRY(layout_check_config(doc, &spec, e));
    XPUSH(f->configs, f->n_configs)->spec = spec;
    f->configs[f->n_configs - 1].name = xstrdup(name);
    spec = (struct migconfig_spec){0};
    return 0;
}

static int add_migparted(const json_t *doc, struct layout_file *f, struct err *e)
{
    auto_migparted_file struct migparted_file file = {0};
    TRY(migparted_read(doc, &file, e));
    for (size_t i = 0; i < file.n; i++) {
        XPUSH(f->configs, f->n_configs)->spec = file.entries[i].spec;
        f->configs[f->n_configs - 1].name = TAKE(file.entries[i].name);
        file.entries[i].spec = (struct migconfig_spec){0};
    }
    return 0;
}

static int add_object(void *arg, const json_t *doc, struct err *e)
{
    struct layout_file *f = arg;
    const char *version = JX_STR_AT(doc, "apiVersion");
    const char *kind = JX_STR_AT(doc, "kind");
    if (!version || !kind || strcmp(kind, "ConfigMap") == 0)
        return add_migparted(doc, f, e);
    const char *name = JX_STR_AT(doc, "metadata", "name");
    if (!name)
        return err_set(e, ERR_INVALID, "%s: .metadata.name is missing", kind);
    bool is_profile = strcmp(kind, "GPUProfile") == 0;
    if (!is_profile && strcmp(kind, "MIGConfig") != 0)
        return err_set(e, ERR_INVALID, "%s %s is neither a GPUProfile nor a MIGConfig", kind, name);
    if (strcmp(version, API_GROUP_VERSION) != 0)
        return err_set(e, ERR_INVALID, "%s %s: apiVersion must be %s", kind, name,
                       API_GROUP_VERSION);
    if ((is_profile ? add_profile : add_config)(doc, name, f, e) < 0)
        return err_wrap(e, "%s %s", kind, name);
    return 0;
}

int layout_file_read(const char *path, struct layout_file *ret, struct err *e)
{
    auto_free char *text = NULL;
    size_t len, n;
    auto_layout_file struct layout_file f = {0};
    TRY(file_read(path, MAX_FILE_BYTES, &text, &len, e));
    TRY(layout_documents_each(file_title(path), text, len, add_object, &f, &n, e));
    if (n == 0)
        return err_set(e, ERR_INVALID, "%s: holds nothing", file_title(path));
    *ret = f;
    f = (struct layout_file){0};
    return 0;
}

void layout_file_done(struct layout_file *f)
{
    for (size_t i = 0; i < f->n_profiles; i++) {
        free(f->profiles[i].name);
        gpuprofile_spec_done(&f->profiles[i].spec);
    }
    for (size_t i = 0; i < f->n_configs; i++) {
        free(f->configs[i].name);
        migconfig_spec_done(&f->configs[i].spec);
    }
    free(f->profiles);
    free(f->configs);
    *f = (struct layout_file){0};
}

static int choose(const struct layout_file *f, const char *selected, const char **ret,
                  struct err *e)
{
    *ret = selected;
    if (selected || f->n_profiles)
        return 0;
    if (f->n_configs == 0)
        return err_set(e, ERR_INVALID, "name a file (-f) or a built-in layout (-c all-balanced)");
    if (f->n_configs == 1) {
        *ret = f->configs[0].name;
        return 0;
    }
    return err_set(e, ERR_INVALID, "the file holds %zu configs; choose one with -c (%s, %s, …)",
                   f->n_configs, f->configs[0].name, f->configs[1].name);
}

/* A name that no layout for these cards has is wrong usage, not an answer about their state. */
static int check_name(const struct resolve_result *r, struct err *e)
{
    for (size_t i = 0; i < r->n_outcomes; i++) {
        const struct resolve_problem *p = resolve_outcome_refusal(&r->outcomes[i]);
        if (p && strcmp(p->reason, "UnknownConfig") == 0)
            return err_set(e, ERR_NOT_FOUND, "%s", p->message);
    }
    return 0;
}

int layout_file_resolve(const struct layout_file *f, const char *selected,
                        const struct resolve_card *cards, size_t n_cards,
                        struct resolve_result *ret, struct err *e)
{
    const char *name;
    TRY(choose(f, selected, &name, e));
    auto_free struct resolve_profile *profiles = xcalloc(f->n_profiles, sizeof(*profiles));
    auto_free struct resolve_config *configs = xcalloc(f->n_configs, sizeof(*configs));
    for (size_t i = 0; i < f->n_profiles; i++)
        profiles[i] = (struct resolve_profile){f->profiles[i].name, 0, &f->profiles[i].spec};
    for (size_t i = 0; i < f->n_configs; i++)
        configs[i] = (struct resolve_config){f->configs[i].name, 0, &f->configs[i].spec};
    const struct resolve_input in = {
        .cards = cards,
        .n_cards = n_cards,
        .profiles = profiles,
        .n_profiles = name ? 0 : f->n_profiles,
        .configs = configs,
        .n_configs = f->n_configs,
        .label = name,
    };
    auto_resolve_result struct resolve_result result = {0};
    resolve_node(&in, &result);
    if (name)
        TRY(check_name(&result, e));
    *ret = result;
    result = (struct resolve_result){0};
    return 0;
}
