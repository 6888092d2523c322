/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/plugin_config_file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

enum { MAX_FILES = 1024 };

static const char *find_name(const char *const *names, size_t n, const char *wanted)
{
    for (size_t i = 0; i < n; i++)
        if (names[i][0] != '.' && strcmp(names[i], wanted) == 0)
            return names[i];
    return NULL;
}

static const char *only_name(const char *const *names, size_t n)
{
    const char *only = NULL;
    for (size_t i = 0; i < n; i++) {
        if (names[i][0] == '.')
            continue;
        if (only)
            return NULL;
        only = names[i];
    }
    return only;
}

int plugin_config_pick(const char *const *names, size_t n, const char *label,
                       const char *default_name, const char **ret, struct err *e)
{
    const char *asked = label && *label ? label : default_name;
    const char *found = asked && *asked ? find_name(names, n, asked) : NULL;
    if (asked && *asked && !found)
        return err_set(e, ERR_NOT_FOUND, "there is no configuration \"%.80s\" (%s)", asked,
                       asked == label ? LABEL_PLUGIN_CONFIG : "DEFAULT_CONFIG");
    if (!found)
        found = find_name(names, n, "default");
    *ret = found ? found : only_name(names, n);
    return 0;
}

struct name_list {
    char **items;
    size_t n;
};

static void names_done(struct name_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i]);
    free(l->items);
}
AUTO_DEFINE(name_list, struct name_list, names_done)

static int list_folder(const char *folder, struct name_list *ret, struct err *e)
{
    auto_dir DIR *d = opendir(folder);
    const struct dirent *entry;
    if (!d)
        return err_set(e, ERR_NOT_FOUND, "%s cannot be listed", folder);
    while (ret->n < MAX_FILES && (entry = readdir(d)))
        *XPUSH(ret->items, ret->n) = xstrdup(entry->d_name);
    return 0;
}

/* *ret stays NULL when no file in the folder counts. */
static int pick_in(const char *folder, const char *label, const char *default_name, char **ret,
                   struct err *e)
{
    AUTO(name_list) struct name_list names = {0};
    const char *name = NULL;
    TRY(list_folder(folder, &names, e));
    TRY(plugin_config_pick((const char *const *)names.items, names.n, label, default_name, &name,
                           e));
    *ret = name ? xasprintf("%s/%s", folder, name) : NULL;
    return 0;
}

static const char *flag_of(const struct plugin_config_source *src, const char *name)
{
    for (size_t i = 0; i < src->n_flags; i++)
        if (strcmp(src->flags[i].name, name) == 0)
            return src->flags[i].value;
    return NULL;
}

/* Leaves out a flag that only plugin_config_load knows. */
static size_t without_flag(const struct plugin_config_source *src, const char *name,
                           struct plugin_setting *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < src->n_flags; i++)
        if (strcmp(src->flags[i].name, name) != 0)
            ret[n++] = src->flags[i];
    return n;
}

static int find_file(const struct plugin_config_source *src, const char *file, const char *label,
                     char **ret, struct err *e)
{
    const char *folder = plugin_options_variable(src->environment, "CONFIG_FILE_SRCDIR");
    const char *named = file ? file : flag_of(src, "config-file");
    if (!named)
        named = folder ? NULL : plugin_options_variable(src->environment, "CONFIG_FILE");
    if (!named && folder)
        return pick_in(folder, label, plugin_options_variable(src->environment, "DEFAULT_CONFIG"),
                       ret, e);
    *ret = xstrdup(named);
    return 0;
}

int plugin_config_load(const struct plugin_config_source *src, const char *file, const char *label,
                       struct plugin_config *ret, struct err *e)
{
    struct plugin_config_source full = *src;
    auto_free struct plugin_setting *flags = xcalloc(src->n_flags, sizeof(*flags));
    auto_free char *path = NULL;
    auto_free char *text = NULL;
    full.file_text = NULL;
    full.flags = flags;
    full.n_flags = without_flag(src, "config-file", flags);
    TRY(find_file(src, file, label, &path, e));
    if (path)
        TRY(file_read(path, PLUGIN_CONFIG_MAX_BYTES, &text, &full.file_bytes, e));
    full.file_text = text;
    int rc = plugin_config_build(&full, ret, e);
    if (rc < 0)
        return path ? err_wrap(e, "%s", path) : rc;
    if (!label && plugin_options_variable(src->environment, "CONFIG_FILE_SRCDIR"))
        plugin_config_note(
            ret, LABEL_PLUGIN_CONFIG,
            "the node's label is not known to the agent, which may not read Nodes: %s counts",
            path ? path : "no file");
    return 0;
}
