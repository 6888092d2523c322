/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/plugin_options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/offer/plugin_config.h"

enum { MAX_TEXT = 4096 };

enum option_kind { OPT_TEXT, OPT_BOOL, OPT_LIST, OPT_DURATION };

/* An option of the plugin (k8s-device-plugin cmd/nvidia-device-plugin/main.go,
 * cmd/gpu-feature-discovery/main.go and api/config/v1/flags.go). ignored: why it is not carried
 * out; reported when the value differs from `fallback`. */
struct option {
    const char *flag, *env;
    enum plugin_section section;
    enum option_kind kind;
    const char *key;
    const char *fallback;
    const char *ignored;
};

#define NO_HOOK "a program is run for containers only where --cdi-hook names it"
#define NO_IMEX "containers get no IMEX channels"
#define LABELS  "labels are written by the controller as soon as something changes"

static const struct option options[PLUGIN_OPTIONS] = {
    [PLUGIN_MIG_STRATEGY] = {"mig-strategy", "MIG_STRATEGY", PLUGIN_IN_FLAGS, OPT_TEXT,
                             "migStrategy", "none", NULL},
    [PLUGIN_FAIL_ON_INIT_ERROR] = {"fail-on-init-error", "FAIL_ON_INIT_ERROR", PLUGIN_IN_FLAGS,
                                   OPT_BOOL, "failOnInitError", "true", NULL},
    [PLUGIN_MPS_ROOT] = {"mps-root", "MPS_ROOT", PLUGIN_IN_FLAGS, OPT_TEXT, "mpsRoot", "", NULL},
    [PLUGIN_DRIVER_ROOT] = {"nvidia-driver-root", "NVIDIA_DRIVER_ROOT", PLUGIN_IN_FLAGS, OPT_TEXT,
                            "nvidiaDriverRoot", "/", NULL},
    [PLUGIN_DEV_ROOT] = {"nvidia-dev-root", "NVIDIA_DEV_ROOT", PLUGIN_IN_FLAGS, OPT_TEXT,
                         "nvidiaDevRoot", "", NULL},
    [PLUGIN_GDRCOPY] = {"gdrcopy-enabled", "GDRCOPY_ENABLED", PLUGIN_IN_FLAGS, OPT_BOOL,
                        "gdrcopyEnabled", "false", NULL},
    [PLUGIN_GDS] = {"gds-enabled", "GDS_ENABLED", PLUGIN_IN_FLAGS, OPT_BOOL, "gdsEnabled", "false",
                    NULL},
    [PLUGIN_MOFED] = {"mofed-enabled", "MOFED_ENABLED", PLUGIN_IN_FLAGS, OPT_BOOL, "mofedEnabled",
                      "false", NULL},
    [PLUGIN_DISCOVERY] = {"device-discovery-strategy", "DEVICE_DISCOVERY_STRATEGY", PLUGIN_IN_FLAGS,
                          OPT_TEXT, "deviceDiscoveryStrategy", "auto", NULL},
    [PLUGIN_NODE_FEATURE_API] = {"use-node-feature-api", "USE_NODE_FEATURE_API", PLUGIN_IN_FLAGS,
                                 OPT_BOOL, "useNodeFeatureAPI", "true",
                                 "no feature file is written either: " LABELS},
    [PLUGIN_RESTART_UNHEALTHY] = {"restart-on-device-unhealthy", "RESTART_ON_DEVICE_UNHEALTHY",
                                  PLUGIN_IN_FLAGS, OPT_BOOL, "restartOnDeviceUnhealthy", "false",
                                  "a device that is well again is offered again without a restart"},
    [PLUGIN_PASS_DEVICE_SPECS] = {"pass-device-specs", "PASS_DEVICE_SPECS", PLUGIN_IN_PLUGIN,
                                  OPT_BOOL, "passDeviceSpecs", "false", NULL},
    [PLUGIN_LIST_STRATEGY] = {"device-list-strategy", "DEVICE_LIST_STRATEGY", PLUGIN_IN_PLUGIN,
                              OPT_LIST, "deviceListStrategy", "envvar", NULL},
    [PLUGIN_ID_STRATEGY] = {"device-id-strategy", "DEVICE_ID_STRATEGY", PLUGIN_IN_PLUGIN, OPT_TEXT,
                            "deviceIDStrategy", "uuid", NULL},
    [PLUGIN_CDI_PREFIX] = {"cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX", PLUGIN_IN_PLUGIN,
                           OPT_TEXT, "cdiAnnotationPrefix", "cdi.k8s.io/", NULL},
    [PLUGIN_CTK_PATH] = {"nvidia-ctk-path", "NVIDIA_CTK_PATH", PLUGIN_IN_PLUGIN, OPT_TEXT,
                         "nvidiaCTKPath", "/usr/bin/nvidia-ctk", NO_HOOK},
    [PLUGIN_CDI_HOOK_PATH] = {"nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH", PLUGIN_IN_PLUGIN,
                              OPT_TEXT, "nvidiaCDIHookPath", "/usr/bin/nvidia-cdi-hook", NO_HOOK},
    [PLUGIN_CDI_FEATURES] = {"cdi-feature-flags", "CDI_FEATURE_FLAGS", PLUGIN_IN_PLUGIN, OPT_LIST,
                             "cdiFeatureFlags", "", NO_HOOK},
    [PLUGIN_CONTAINER_ROOT] = {"container-driver-root", "CONTAINER_DRIVER_ROOT", PLUGIN_IN_PLUGIN,
                               OPT_TEXT, "containerDriverRoot", "/driver-root", NULL},
    [PLUGIN_ALLOCATION_POLICY] = {"shared-devices-allocation-policy",
                                  "SHARED_DEVICES_ALLOCATION_POLICY", PLUGIN_IN_PLUGIN, OPT_TEXT,
                                  "sharedDevicesAllocationPolicy", "distributed", NULL},
    [PLUGIN_GFD_ONESHOT] = {"oneshot", "GFD_ONESHOT", PLUGIN_IN_GFD, OPT_BOOL, "oneshot", "false",
                            LABELS},
    [PLUGIN_GFD_NO_TIMESTAMP] = {"no-timestamp", "GFD_NO_TIMESTAMP", PLUGIN_IN_GFD, OPT_BOOL,
                                 "noTimestamp", "false", NULL},
    [PLUGIN_GFD_SLEEP] = {"sleep-interval", "GFD_SLEEP_INTERVAL", PLUGIN_IN_GFD, OPT_DURATION,
                          "sleepInterval", "60s", LABELS},
    [PLUGIN_GFD_OUTPUT] = {"output-file", "GFD_OUTPUT_FILE", PLUGIN_IN_GFD, OPT_TEXT, "outputFile",
                           "/etc/kubernetes/node-feature-discovery/features.d/gfd",
                           "no feature file is written: " LABELS},
    [PLUGIN_GFD_MACHINE] = {"machine-type-file", "GFD_MACHINE_TYPE_FILE", PLUGIN_IN_GFD, OPT_TEXT,
                            "machineTypeFile", "",
                            "the machine's name is read where the kernel has it, below --sys-root"},
    [PLUGIN_IMEX_CHANNELS] = {"imex-channel-ids", "IMEX_CHANNEL_IDS", PLUGIN_IN_IMEX, OPT_LIST,
                              "channelIDs", "", NO_IMEX},
    [PLUGIN_IMEX_REQUIRED] = {"imex-required", "IMEX_REQUIRED", PLUGIN_IN_IMEX, OPT_BOOL,
                              "required", "false", NO_IMEX},
    [PLUGIN_DISABLE_CHECKS] = {NULL, "DP_DISABLE_HEALTHCHECKS", PLUGIN_IN_NONE, OPT_TEXT, NULL, "",
                               NULL},
    [PLUGIN_ENABLE_CHECKS] = {NULL, "DP_ENABLE_HEALTHCHECKS", PLUGIN_IN_NONE, OPT_TEXT, NULL, "",
                              NULL},
};

/* Takes over both texts. */
static void set_take(struct plugin_options *o, size_t option, char *text, char *where)
{
    assert(option < PLUGIN_OPTIONS && text && where);
    struct plugin_value *v = &o->values[option];
    free(v->text);
    free(v->where);
    v->text = text;
    v->where = where;
}

bool plugin_options_has(const struct plugin_options *o, enum plugin_option id)
{
    assert(id < PLUGIN_OPTIONS);
    return o->values[id].text;
}

const char *plugin_options_text(const struct plugin_options *o, enum plugin_option id)
{
    assert(id < PLUGIN_OPTIONS);
    return o->values[id].text ? o->values[id].text : options[id].fallback;
}

bool plugin_options_is_on(const struct plugin_options *o, enum plugin_option id)
{
    assert(id < PLUGIN_OPTIONS && options[id].kind == OPT_BOOL);
    return strcmp(plugin_options_text(o, id), "true") == 0;
}

const char *plugin_options_where(const struct plugin_options *o, enum plugin_option id)
{
    assert(id < PLUGIN_OPTIONS && !o->values[id].text == !o->values[id].where);
    return o->values[id].where ? o->values[id].where : options[id].flag;
}

/* --- From the file --- */

static int list_text(const json_t *value, const char *where, char **ret, struct err *e)
{
    auto_sb struct sb text = SB_INIT(MAX_TEXT);
    size_t i;
    const json_t *item;
    json_array_foreach(value, i, item) {
        if (json_is_string(item))
            sb_addf(&text, "%s%s", i ? "," : "", json_string_value(item));
        else if (json_is_integer(item))
            sb_addf(&text, "%s%lld", i ? "," : "", (long long)json_integer_value(item));
        else
            return err_set(e, ERR_INVALID, "%s[%zu]: must be a text", where, i);
    }
    if (text.overflow)
        return err_set(e, ERR_TOO_LARGE, "%s: is too long", where);
    *ret = sb_take(&text);
    return 0;
}

static int string_text(const json_t *value, const char *where, char **ret, struct err *e)
{
    if (json_string_length(value) > MAX_TEXT)
        return err_set(e, ERR_TOO_LARGE, "%s: is too long", where);
    *ret = xstrdup(json_string_value(value));
    return 0;
}

static int file_text(const struct option *o, const json_t *value, const char *where, char **ret,
                     struct err *e)
{
    if (o->kind == OPT_BOOL) {
        if (!json_is_boolean(value))
            return err_set(e, ERR_INVALID, "%s: must be true or false", where);
        *ret = xstrdup(json_is_true(value) ? "true" : "false");
        return 0;
    }
    if (json_is_string(value))
        return string_text(value, where, ret, e);
    if (o->kind == OPT_LIST && json_is_array(value))
        return list_text(value, where, ret, e);
    if (o->kind == OPT_DURATION && json_is_number(value)) {
        *ret = xasprintf("%gns", json_number_value(value));
        return 0;
    }
    return err_set(e, ERR_INVALID, "%s: must be %s", where,
                   o->kind == OPT_LIST ? "a text or a list of texts" : "a text");
}

static size_t option_of_key(enum plugin_section section, const char *key)
{
    size_t i = 0;
    assert(section != PLUGIN_IN_NONE); /* its options have no key */
    while (i < PLUGIN_OPTIONS &&
           (options[i].section != section || strcmp(options[i].key, key) != 0))
        i++;
    return i;
}

static bool is_block(enum plugin_section section, const char *key)
{
    return section == PLUGIN_IN_FLAGS && (strcmp(key, "plugin") == 0 || strcmp(key, "gfd") == 0);
}

int plugin_options_read(struct plugin_options *o, const json_t *obj, enum plugin_section section,
                        const char *path, struct plugin_config *notices, struct err *e)
{
    if (!obj || json_is_null(obj))
        return 0;
    if (!json_is_object(obj))
        return err_set(e, ERR_INVALID, "%s: must be an object", path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value) {
        auto_free char *where = xasprintf("%s.%.100s", path, key);
        size_t i = option_of_key(section, key);
        if (is_block(section, key) || json_is_null(value))
            continue;
        if (i == PLUGIN_OPTIONS) {
            plugin_config_note(notices, where, "is not known");
            continue;
        }
        char *text = NULL;
        TRY(file_text(&options[i], value, where, &text, e));
        set_take(o, i, text, TAKE(where));
    }
    return 0;
}

/* --- Variables and flags --- */

/* Go's strconv.ParseBool. */
static int bool_text(const char *text, const char *where, char **ret, struct err *e)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret = xstrdup(strcmp(text, yes[i]) == 0 ? "true" : "false");
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "%s: must be true or false, not \"%.40s\"", where, text);
}

static int set_text(struct plugin_options *o, size_t option, const char *text, const char *where,
                    struct err *e)
{
    char *value = NULL;
    if (strlen(text) > MAX_TEXT)
        return err_set(e, ERR_TOO_LARGE, "%s: is too long", where);
    if (options[option].kind == OPT_BOOL)
        TRY(bool_text(text, where, &value, e));
    else
        value = xstrdup(text);
    set_take(o, option, value, xstrdup(where));
    return 0;
}

const char *plugin_options_variable(const char *const *environment, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *v = environment; v && *v; v++)
        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
            return (*v)[len + 1] ? *v + len + 1 : NULL;
    return NULL;
}

int plugin_options_set_variables(struct plugin_options *o, const char *const *environment,
                                 struct err *e)
{
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++) {
        const char *text = plugin_options_variable(environment, options[i].env);
        if (text)
            TRY(set_text(o, i, text, options[i].env, e));
    }
    return 0;
}

int plugin_options_set_flags(struct plugin_options *o, const struct plugin_setting *flags, size_t n,
                             struct err *e)
{
    for (size_t k = 0; k < n; k++) {
        const struct plugin_setting *f = &flags[k];
        auto_free char *where = xasprintf("--%.100s", f->name);
        size_t i = 0;
        while (i < PLUGIN_OPTIONS && (!options[i].flag || strcmp(options[i].flag, f->name) != 0))
            i++;
        if (i == PLUGIN_OPTIONS)
            return err_set(e, ERR_INVALID, "%s: is not known", where);
        TRY(set_text(o, i, f->value, where, e));
    }
    return 0;
}

void plugin_options_note_ignored(const struct plugin_options *o, struct plugin_config *notices)
{
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++)
        if (options[i].ignored && o->values[i].text &&
            strcmp(o->values[i].text, options[i].fallback) != 0)
            plugin_config_note(notices, o->values[i].where, "is ignored: %s", options[i].ignored);
}

void plugin_options_done(struct plugin_options *o)
{
    for (size_t i = 0; i < PLUGIN_OPTIONS; i++) {
        free(o->values[i].text);
        free(o->values[i].where);
    }
    *o = (struct plugin_options){0};
}
