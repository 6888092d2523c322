/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/plugin_config_build.h"

#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/device.h"
#include "nodeagent/container/entry.h"
#include "nodeagent/offer/plugin_sharing.h"

/* The values that the sources set, and what becomes of them. */
struct draft {
    struct plugin_options options;
    struct plugin_config config;
};

static void draft_done(struct draft *d)
{
    plugin_options_done(&d->options);
    plugin_config_done(&d->config);
}
AUTO_DEFINE(draft, struct draft, draft_done)

static const char *text_of(const struct draft *d, enum plugin_option id)
{
    return plugin_options_text(&d->options, id);
}

static bool is_on(const struct draft *d, enum plugin_option id)
{
    return plugin_options_is_on(&d->options, id);
}

static const char *where_of(const struct draft *d, enum plugin_option id)
{
    return plugin_options_where(&d->options, id);
}

/* --- The file --- */

static int check_version(const json_t *doc, struct err *e)
{
    const json_t *version = json_object_get(doc, "version");
    if (!version || json_is_null(version))
        return 0;
    if (!json_is_string(version))
        return err_set(e, ERR_INVALID, ".version: must be v1");
    const char *text = json_string_value(version);
    if (*text && strcmp(text, "v1") != 0)
        return err_set(e, ERR_INVALID, ".version: \"%.40s\" is not known; v1 is", text);
    return 0;
}

static int read_section(struct draft *d, const json_t *obj, enum plugin_section section,
                        const char *path, struct err *e)
{
    return plugin_options_read(&d->options, obj, section, path, &d->config, e);
}

static int read_doc(struct draft *d, const json_t *doc, struct err *e)
{
    static const struct jx_field known[] = {{.name = "version"},   {.name = "flags"},
                                            {.name = "resources"}, {.name = "sharing"},
                                            {.name = "imex"},      {0}};
    if (!json_is_object(doc))
        return err_set(e, ERR_INVALID, "the configuration must be an object");
    TRY(check_version(doc, e));
    plugin_config_note_unknown(&d->config, doc, known, "");
    const json_t *flags = json_object_get(doc, "flags");
    TRY(read_section(d, flags, PLUGIN_IN_FLAGS, ".flags", e));
    TRY(read_section(d, json_object_get(flags, "plugin"), PLUGIN_IN_PLUGIN, ".flags.plugin", e));
    TRY(read_section(d, json_object_get(flags, "gfd"), PLUGIN_IN_GFD, ".flags.gfd", e));
    TRY(read_section(d, json_object_get(doc, "imex"), PLUGIN_IN_IMEX, ".imex", e));
    const json_t *resources = json_object_get(doc, "resources");
    if (!plugin_config_is_empty(resources))
        plugin_config_note(
            &d->config, ".resources",
            "is ignored as NVIDIA's plugin ignores it; resources have their usual names");
    return plugin_sharing_read(&d->config, json_object_get(doc, "sharing"), e);
}

static int read_file(struct draft *d, const char *text, size_t len, struct err *e)
{
    auto_json json_t *docs = NULL;
    if (len > PLUGIN_CONFIG_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "the configuration is longer than %zu bytes",
                       PLUGIN_CONFIG_MAX_BYTES);
    TRY(yaml_load_all(text, len, &docs, e));
    if (json_array_size(docs) > 1)
        return err_set(e, ERR_INVALID, "the configuration must be one document");
    return json_array_size(docs) ? read_doc(d, json_array_get(docs, 0), e) : 0;
}

/* --- Interpretation --- */

/* The index of the option's value in words. */
static int word_of(const struct draft *d, enum plugin_option id, const char *const words[],
                   int *ret, struct err *e)
{
    auto_sb struct sb list = SB_INIT(256);
    for (int i = 0; words[i]; i++) {
        if (strcmp(text_of(d, id), words[i]) == 0) {
            *ret = i;
            return 0;
        }
        sb_addf(&list, "%s%s", i ? ", " : "", words[i]);
    }
    return err_set(e, ERR_INVALID, "%s: must be one of %s, not \"%.40s\"", where_of(d, id),
                   sb_str(&list), text_of(d, id));
}

/* Takes the next word of a list separated by commas and moves *at behind it. False: the list has
 * ended. */
static bool next_word(const char **at, char *word, size_t bytes)
{
    while (**at == ',' || **at == ' ')
        (*at)++;
    size_t n = strcspn(*at, ", ");
    (void)snprintf(word, bytes, "%.*s", (int)n, *at);
    *at += n;
    return n > 0;
}

static int read_ways(struct draft *d, struct err *e)
{
    static const struct {
        const char *word;
        unsigned way;
    } ways[] = {{"envvar", ENTRY_ENVVAR},
                {"volume-mounts", ENTRY_VOLUME_MOUNTS},
                {"cdi-annotations", ENTRY_CDI_ANNOTATIONS},
                {"cdi-cri", ENTRY_CDI_CRI}};
    char word[64];
    for (const char *at = text_of(d, PLUGIN_LIST_STRATEGY); next_word(&at, word, sizeof(word));) {
        unsigned way = 0;
        for (size_t i = 0; i < ARRAY_LEN(ways); i++)
            way |= strcmp(ways[i].word, word) == 0 ? ways[i].way : 0;
        if (!way)
            return err_set(e, ERR_INVALID,
                           "%s: \"%s\" is none of envvar, volume-mounts, cdi-annotations, cdi-cri",
                           where_of(d, PLUGIN_LIST_STRATEGY), word);
        d->config.ways |= way;
    }
    if (d->config.ways)
        return 0;
    return err_set(e, ERR_INVALID, "%s: names no strategy", where_of(d, PLUGIN_LIST_STRATEGY));
}

/* The plugin accepts an empty list and [0]. */
static int read_channels(struct draft *d, struct err *e)
{
    const char *text = text_of(d, PLUGIN_IMEX_CHANNELS);
    if (*text && strcmp(text, "0") != 0)
        return err_set(e, ERR_INVALID, "%s: must be empty or 0, not \"%.40s\"",
                       where_of(d, PLUGIN_IMEX_CHANNELS), text);
    d->config.imex_channel_0 = *text != '\0';
    d->config.imex_required = is_on(d, PLUGIN_IMEX_REQUIRED);
    return 0;
}

static int read_words(struct draft *d, struct err *e)
{
    static const char *const ids[] = {"uuid", "index", NULL};
    static const char *const policies[] = {"distributed", "packed", NULL};
    static const char *const discoveries[] = {"auto", "nvml", "tegra", NULL};
    int id = 0;
    int policy = 0;
    int discovery = 0;
    TRY(word_of(d, PLUGIN_MIG_STRATEGY, api_mig_strategy_names, &d->config.mig_strategy, e));
    TRY(word_of(d, PLUGIN_ID_STRATEGY, ids, &id, e));
    TRY(word_of(d, PLUGIN_ALLOCATION_POLICY, policies, &policy, e));
    TRY(word_of(d, PLUGIN_DISCOVERY, discoveries, &discovery, e));
    d->config.by_index = id == 1;
    d->config.packed = policy == 1;
    if (discovery == 2)
        plugin_config_note(&d->config, where_of(d, PLUGIN_DISCOVERY),
                           "tegra is ignored: cards are found through NVML alone");
    return 0;
}

static int root_of(const struct draft *d, enum plugin_option id, char **ret, struct err *e)
{
    const char *text = text_of(d, id);
    if (*text && *text != '/')
        return err_set(e, ERR_INVALID, "%s: must be an absolute path, not \"%.80s\"",
                       where_of(d, id), text);
    *ret = xstrdup(text);
    return 0;
}

static int read_roots(struct draft *d, struct err *e)
{
    struct plugin_config *c = &d->config;
    TRY(root_of(d, PLUGIN_DRIVER_ROOT, &c->driver_root, e));
    TRY(root_of(d, *text_of(d, PLUGIN_DEV_ROOT) ? PLUGIN_DEV_ROOT : PLUGIN_DRIVER_ROOT,
                &c->dev_root, e));
    TRY(root_of(d, PLUGIN_CONTAINER_ROOT, &c->container_driver_root, e));
    TRY(root_of(d, PLUGIN_MPS_ROOT, &c->mps_root, e));
    return root_of(d, PLUGIN_GFD_MACHINE, &c->machine_type_file, e);
}

static void read_switches(struct draft *d)
{
    struct plugin_config *c = &d->config;
    c->fail_on_init_error = is_on(d, PLUGIN_FAIL_ON_INIT_ERROR);
    c->pass_device_specs = is_on(d, PLUGIN_PASS_DEVICE_SPECS);
    c->gdrcopy = is_on(d, PLUGIN_GDRCOPY);
    c->gds = is_on(d, PLUGIN_GDS);
    c->mofed = is_on(d, PLUGIN_MOFED);
    c->no_timestamp = is_on(d, PLUGIN_GFD_NO_TIMESTAMP);
    c->cdi_annotation_prefix = xstrdup(text_of(d, PLUGIN_CDI_PREFIX));
    c->disable_health_checks = xstrdup(text_of(d, PLUGIN_DISABLE_CHECKS));
    c->enable_health_checks = xstrdup(text_of(d, PLUGIN_ENABLE_CHECKS));
}

static void read_said(struct draft *d)
{
    struct plugin_config *c = &d->config;
    c->said.mig_strategy = plugin_options_has(&d->options, PLUGIN_MIG_STRATEGY);
    c->said.ways = plugin_options_has(&d->options, PLUGIN_LIST_STRATEGY);
    c->said.driver_root = plugin_options_has(&d->options, PLUGIN_DRIVER_ROOT);
    c->said.dev_root = plugin_options_has(&d->options, PLUGIN_DEV_ROOT);
    c->said.container_driver_root = plugin_options_has(&d->options, PLUGIN_CONTAINER_ROOT);
    c->said.mps_root = plugin_options_has(&d->options, PLUGIN_MPS_ROOT);
}

static void note_ignored(struct draft *d)
{
    plugin_options_note_ignored(&d->options, &d->config);
    if (plugin_options_has(&d->options, PLUGIN_FAIL_ON_INIT_ERROR) &&
        is_on(d, PLUGIN_FAIL_ON_INIT_ERROR))
        plugin_config_note(
            &d->config, where_of(d, PLUGIN_FAIL_ON_INIT_ERROR),
            "is ignored: an agent without a driver waits for one, and says so in a condition");
}

int plugin_config_build(const struct plugin_config_source *src, struct plugin_config *ret,
                        struct err *e)
{
    AUTO(draft) struct draft d = {0};
    if (src->file_text)
        TRY(read_file(&d, src->file_text, src->file_bytes, e));
    TRY(plugin_options_set_variables(&d.options, src->environment, e));
    TRY(plugin_options_set_flags(&d.options, src->flags, src->n_flags, e));
    TRY(read_words(&d, e));
    TRY(read_ways(&d, e));
    TRY(read_roots(&d, e));
    TRY(read_channels(&d, e));
    read_switches(&d);
    read_said(&d);
    note_ignored(&d);
    *ret = d.config;
    d.config = (struct plugin_config){0};
    return 0;
}
