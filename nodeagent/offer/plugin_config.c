/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/plugin_config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/device.h"
#include "nodeagent/container/entry.h"

enum { MAX_TEXT = 4096, MAX_NAME = 63, MAX_FILES = 1024 };
enum { WORDS_BYTES = 4000 }; /* a condition's message has 4096 characters */

/* --- Options: one table for the file's flags, the variables and the command line --- */

enum kind { OPT_TEXT, OPT_BOOL, OPT_LIST, OPT_DURATION };
enum section { IN_NONE, IN_FLAGS, IN_PLUGIN, IN_GFD, IN_IMEX };

enum option_id {
    MIG_STRATEGY,
    FAIL_ON_INIT_ERROR,
    MPS_ROOT,
    DRIVER_ROOT,
    DEV_ROOT,
    GDRCOPY,
    GDS,
    MOFED,
    DISCOVERY,
    NODE_FEATURE_API,
    RESTART_UNHEALTHY,
    PASS_DEVICE_SPECS,
    LIST_STRATEGY,
    ID_STRATEGY,
    CDI_PREFIX,
    CTK_PATH,
    CDI_HOOK_PATH,
    CDI_FEATURES,
    CONTAINER_ROOT,
    ALLOCATION_POLICY,
    GFD_ONESHOT,
    GFD_NO_TIMESTAMP,
    GFD_SLEEP,
    GFD_OUTPUT,
    GFD_MACHINE,
    IMEX_CHANNELS,
    IMEX_REQUIRED,
    DISABLE_CHECKS,
    ENABLE_CHECKS,
    OPTIONS,
};

/* An option of the plugin (k8s-device-plugin cmd/nvidia-device-plugin/main.go,
 * cmd/gpu-feature-discovery/main.go and api/config/v1/flags.go). ignored: why it is not carried
 * out; reported when the value differs from `fallback`. */
struct option {
    const char *flag, *env;
    enum section section;
    enum kind kind;
    const char *key;
    const char *fallback;
    const char *ignored;
};

#define NO_HOOK "a program is run for containers only where --cdi-hook names it"
#define NO_IMEX "containers get no IMEX channels"
#define LABELS  "labels are written by the controller as soon as something changes"

static const struct option options[OPTIONS] = {
    [MIG_STRATEGY] = {"mig-strategy", "MIG_STRATEGY", IN_FLAGS, OPT_TEXT, "migStrategy", "none",
                      NULL},
    [FAIL_ON_INIT_ERROR] = {"fail-on-init-error", "FAIL_ON_INIT_ERROR", IN_FLAGS, OPT_BOOL,
                            "failOnInitError", "true", NULL},
    [MPS_ROOT] = {"mps-root", "MPS_ROOT", IN_FLAGS, OPT_TEXT, "mpsRoot", "", NULL},
    [DRIVER_ROOT] = {"nvidia-driver-root", "NVIDIA_DRIVER_ROOT", IN_FLAGS, OPT_TEXT,
                     "nvidiaDriverRoot", "/", NULL},
    [DEV_ROOT] = {"nvidia-dev-root", "NVIDIA_DEV_ROOT", IN_FLAGS, OPT_TEXT, "nvidiaDevRoot", "",
                  NULL},
    [GDRCOPY] = {"gdrcopy-enabled", "GDRCOPY_ENABLED", IN_FLAGS, OPT_BOOL, "gdrcopyEnabled",
                 "false", NULL},
    [GDS] = {"gds-enabled", "GDS_ENABLED", IN_FLAGS, OPT_BOOL, "gdsEnabled", "false", NULL},
    [MOFED] = {"mofed-enabled", "MOFED_ENABLED", IN_FLAGS, OPT_BOOL, "mofedEnabled", "false", NULL},
    [DISCOVERY] = {"device-discovery-strategy", "DEVICE_DISCOVERY_STRATEGY", IN_FLAGS, OPT_TEXT,
                   "deviceDiscoveryStrategy", "auto", NULL},
    [NODE_FEATURE_API] = {"use-node-feature-api", "USE_NODE_FEATURE_API", IN_FLAGS, OPT_BOOL,
                          "useNodeFeatureAPI", "true",
                          "no feature file is written either: " LABELS},
    [RESTART_UNHEALTHY] = {"restart-on-device-unhealthy", "RESTART_ON_DEVICE_UNHEALTHY", IN_FLAGS,
                           OPT_BOOL, "restartOnDeviceUnhealthy", "false",
                           "a device that is well again is offered again without a restart"},
    [PASS_DEVICE_SPECS] = {"pass-device-specs", "PASS_DEVICE_SPECS", IN_PLUGIN, OPT_BOOL,
                           "passDeviceSpecs", "false", NULL},
    [LIST_STRATEGY] = {"device-list-strategy", "DEVICE_LIST_STRATEGY", IN_PLUGIN, OPT_LIST,
                       "deviceListStrategy", "envvar", NULL},
    [ID_STRATEGY] = {"device-id-strategy", "DEVICE_ID_STRATEGY", IN_PLUGIN, OPT_TEXT,
                     "deviceIDStrategy", "uuid", NULL},
    [CDI_PREFIX] = {"cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX", IN_PLUGIN, OPT_TEXT,
                    "cdiAnnotationPrefix", "cdi.k8s.io/", NULL},
    [CTK_PATH] = {"nvidia-ctk-path", "NVIDIA_CTK_PATH", IN_PLUGIN, OPT_TEXT, "nvidiaCTKPath",
                  "/usr/bin/nvidia-ctk", NO_HOOK},
    [CDI_HOOK_PATH] = {"nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH", IN_PLUGIN, OPT_TEXT,
                       "nvidiaCDIHookPath", "/usr/bin/nvidia-cdi-hook", NO_HOOK},
    [CDI_FEATURES] = {"cdi-feature-flags", "CDI_FEATURE_FLAGS", IN_PLUGIN, OPT_LIST,
                      "cdiFeatureFlags", "", NO_HOOK},
    [CONTAINER_ROOT] = {"container-driver-root", "CONTAINER_DRIVER_ROOT", IN_PLUGIN, OPT_TEXT,
                        "containerDriverRoot", "/driver-root", NULL},
    [ALLOCATION_POLICY] = {"shared-devices-allocation-policy", "SHARED_DEVICES_ALLOCATION_POLICY",
                           IN_PLUGIN, OPT_TEXT, "sharedDevicesAllocationPolicy", "distributed",
                           NULL},
    [GFD_ONESHOT] = {"oneshot", "GFD_ONESHOT", IN_GFD, OPT_BOOL, "oneshot", "false", LABELS},
    [GFD_NO_TIMESTAMP] = {"no-timestamp", "GFD_NO_TIMESTAMP", IN_GFD, OPT_BOOL, "noTimestamp",
                          "false", NULL},
    [GFD_SLEEP] = {"sleep-interval", "GFD_SLEEP_INTERVAL", IN_GFD, OPT_DURATION, "sleepInterval",
                   "60s", LABELS},
    [GFD_OUTPUT] = {"output-file", "GFD_OUTPUT_FILE", IN_GFD, OPT_TEXT, "outputFile",
                    "/etc/kubernetes/node-feature-discovery/features.d/gfd",
                    "no feature file is written: " LABELS},
    [GFD_MACHINE] = {"machine-type-file", "GFD_MACHINE_TYPE_FILE", IN_GFD, OPT_TEXT,
                     "machineTypeFile", "",
                     "the machine's name is read where the kernel has it, below --sys-root"},
    [IMEX_CHANNELS] = {"imex-channel-ids", "IMEX_CHANNEL_IDS", IN_IMEX, OPT_LIST, "channelIDs", "",
                       NO_IMEX},
    [IMEX_REQUIRED] = {"imex-required", "IMEX_REQUIRED", IN_IMEX, OPT_BOOL, "required", "false",
                       NO_IMEX},
    [DISABLE_CHECKS] = {NULL, "DP_DISABLE_HEALTHCHECKS", IN_NONE, OPT_TEXT, NULL, "", NULL},
    [ENABLE_CHECKS] = {NULL, "DP_ENABLE_HEALTHCHECKS", IN_NONE, OPT_TEXT, NULL, "", NULL},
};

/* A value as text ("true", "a,b"), and where it was set. */
struct value {
    char *text, *where; /* owned; NULL: not set */
};

struct draft {
    struct value values[OPTIONS];
    struct plugin_config config;
};

static void draft_done(struct draft *d)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        free(d->values[i].text);
        free(d->values[i].where);
    }
    plugin_config_done(&d->config);
}
AUTO_DEFINE(draft, struct draft, draft_done)

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static void PRINTF_LIKE(3, 4)
    notice(struct plugin_config *c, const char *where, const char *fmt, ...)
{
    if (c->n_notices == PLUGIN_CONFIG_MAX_NOTICES)
        return;
    va_list ap;
    va_start(ap, fmt);
    struct plugin_notice *n = XPUSH(c->notices, c->n_notices);
    n->where = xstrdup(where);
    n->why = xvasprintf(fmt, ap);
    va_end(ap);
}

/* Takes over both texts. */
static void set_take(struct draft *d, size_t option, char *text, char *where)
{
    struct value *v = &d->values[option];
    free(v->text);
    free(v->where);
    v->text = text;
    v->where = where;
}

static const char *text_of(const struct draft *d, enum option_id id)
{
    return d->values[id].text ? d->values[id].text : options[id].fallback;
}

static bool is_on(const struct draft *d, enum option_id id)
{
    return strcmp(text_of(d, id), "true") == 0;
}

/* The place that set an option, for an error: a path in the file, or the flag. */
static const char *where_of(const struct draft *d, enum option_id id)
{
    return d->values[id].where ? d->values[id].where : options[id].flag;
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

static size_t option_of_key(enum section section, const char *key)
{
    size_t i = 0;
    while (i < OPTIONS && (options[i].section != section || strcmp(options[i].key, key) != 0))
        i++;
    return i;
}

static bool is_block(enum section section, const char *key)
{
    return section == IN_FLAGS && (strcmp(key, "plugin") == 0 || strcmp(key, "gfd") == 0);
}

/* Reads the options of one object of the file. */
static int read_section(struct draft *d, const json_t *obj, enum section section, const char *path,
                        struct err *e)
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
        if (i == OPTIONS) {
            notice(&d->config, where, "is not known");
            continue;
        }
        char *text = NULL;
        TRY(file_text(&options[i], value, where, &text, e));
        set_take(d, i, text, TAKE(where));
    }
    return 0;
}

/* --- Sharing --- */

struct file_resource {
    char *name, *rename;
    int64_t replicas;
    json_t *devices;
};

struct file_sharing {
    bool rename_by_default, has_fail, fail;
    char *strategy;
    struct file_resource *resources;
    size_t n_resources;
};

static const struct jx_field resource_fields[] = {
    JX_F(file_resource, name, "name", JX_STR, .required = true, .min = 1, .max = 253),
    JX_F(file_resource, rename, "rename", JX_STR, .max = 253),
    JX_F(file_resource, replicas, "replicas", JX_INT, .required = true, .min = 1,
         .max = PLUGIN_CONFIG_MAX_REPLICAS),
    JX_F(file_resource, devices, "devices", JX_ANY),
    {0},
};

static const struct jx_field sharing_fields[] = {
    JX_F(file_sharing, rename_by_default, "renameByDefault", JX_BOOL),
    JX_P(file_sharing, fail, has_fail, "failRequestsGreaterThanOne", JX_BOOL),
    JX_F(file_sharing, strategy, "strategy", JX_STR, .max = 64),
    JX_L(file_sharing, resources, n_resources, "resources", JX_LIST, .required = true, .min = 1,
         .max = PLUGIN_CONFIG_MAX_SHARED, .sub = resource_fields,
         .elem_bytes = sizeof(struct file_resource)),
    {0},
};

static void sharing_done(struct file_sharing *s)
{
    jx_free(sharing_fields, s);
}
AUTO_DEFINE(file_sharing, struct file_sharing, sharing_done)

static void note_unknown(struct plugin_config *c, const json_t *obj, const struct jx_field *fields,
                         const char *path)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value) {
        const struct jx_field *f = fields;
        while (f->name && strcmp(f->name, key) != 0)
            f++;
        if (f->name)
            continue;
        auto_free char *where = xasprintf("%s.%.100s", path, key);
        notice(c, where, "is not known");
    }
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* True for a DNS subdomain, which the plugin requires behind the slash. */
static bool is_subdomain(const char *s)
{
    for (const char *c = s; *c; c++) {
        bool edge = c == s || c[-1] == '.' || c[1] == '.' || !c[1];
        if (!is_lower_or_digit(*c) && (edge || (*c != '-' && *c != '.')))
            return false;
    }
    return *s;
}

/* Completes a name: "gpu" is nvidia.com/gpu. */
static int full_name(const char *name, const char *where, char **ret, struct err *e)
{
    static const char prefix[] = "nvidia.com/";
    const char *rest =
        strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : name;
    auto_free char *full = xasprintf("%s%s", prefix, rest);
    if (strlen(full) > MAX_NAME)
        return err_set(e, ERR_INVALID, "%s: %.80s is longer than %d characters", where, full,
                       MAX_NAME);
    if (!is_subdomain(rest))
        return err_set(e, ERR_INVALID, "%s: \"%.80s\" is no name of a resource", where, name);
    *ret = TAKE(full);
    return 0;
}

/* Notices for settings that the plugin parses and then ignores (DisableResourceNamingInConfig). */
static void note_unserved(struct plugin_config *c, const struct file_resource *r,
                          bool rename_by_default, const char *shared_name, const char *path)
{
    auto_free char *rename = xasprintf("%s.rename", path);
    auto_free char *devices = xasprintf("%s.devices", path);
    if (r->rename && *r->rename && (!rename_by_default || strcmp(r->rename, shared_name) != 0))
        notice(c, rename, "is ignored as NVIDIA's plugin ignores it; renameByDefault is followed");
    if (r->devices && !json_is_null(r->devices) &&
        !(json_is_string(r->devices) && strcmp(json_string_value(r->devices), "all") == 0))
        notice(c, devices, "is ignored as NVIDIA's plugin ignores it; all devices are shared");
}

static bool is_listed(const struct plugin_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_shared; i++)
        if (strcmp(c->shared[i].name, name) == 0)
            return true;
    return false;
}

static int add_shared(struct plugin_config *c, const struct file_resource *r,
                      bool rename_by_default, const char *path, struct err *e)
{
    auto_free char *where = xasprintf("%s.name", path);
    auto_free char *name = NULL;
    TRY(full_name(r->name, where, &name, e));
    auto_free char *shared_name = xasprintf("%s.shared", name);
    if (rename_by_default && strlen(shared_name) > MAX_NAME)
        return err_set(e, ERR_INVALID, "%s: %s is longer than %d characters", where, shared_name,
                       MAX_NAME);
    if (is_listed(c, name))
        return err_set(e, ERR_INVALID, "%s: %s is listed twice", where, name);
    note_unserved(c, r, rename_by_default, shared_name, path);
    if (r->replicas < 2) {
        notice(c, path, "one replica of %s shares nothing", name);
        return 0;
    }
    struct plugin_shared *s = XPUSH(c->shared, c->n_shared);
    s->offered_as = rename_by_default ? TAKE(shared_name) : xstrdup(name);
    s->name = TAKE(name);
    s->replicas = r->replicas;
    return 0;
}

/* failRequestsGreaterThanOne defaults to false for time-slicing and to true for MPS. */
static int read_sharing(struct plugin_config *c, const json_t *obj, enum plugin_sharing how,
                        const char *path, struct err *e)
{
    AUTO(file_sharing) struct file_sharing s = {.fail = how == PLUGIN_MPS};
    auto_err struct err why = {0};
    if (jx_decode(obj, sharing_fields, &s, &why) < 0)
        return err_set(e, ERR_INVALID, "%s%s", path, err_msg(&why));
    note_unknown(c, obj, sharing_fields, path);
    if (s.strategy && *s.strategy)
        return err_set(e, ERR_INVALID, "%s.strategy: \"%s\" is not known", path, s.strategy);
    for (size_t i = 0; i < s.n_resources; i++) {
        auto_free char *item = xasprintf("%s.resources[%zu]", path, i);
        note_unknown(c, json_array_get(json_object_get(obj, "resources"), i), resource_fields,
                     item);
        TRY(add_shared(c, &s.resources[i], s.rename_by_default, item, e));
    }
    c->sharing = c->n_shared ? how : PLUGIN_UNSHARED;
    c->fail_requests_greater_than_one = s.fail;
    return 0;
}

/* The block under a key; NULL for a missing or empty one. */
static const json_t *block(const json_t *obj, const char *key)
{
    const json_t *value = json_object_get(obj, key);
    return json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0) ? NULL
                                                                                          : value;
}

static int read_sharings(struct plugin_config *c, const json_t *sharing, struct err *e)
{
    static const struct jx_field known[] = {{.name = "timeSlicing"}, {.name = "mps"}, {0}};
    if (!sharing)
        return 0;
    if (!json_is_object(sharing))
        return err_set(e, ERR_INVALID, ".sharing: must be an object");
    note_unknown(c, sharing, known, ".sharing");
    const json_t *slices = block(sharing, "timeSlicing");
    const json_t *mps = block(sharing, "mps");
    if (mps && slices)
        notice(c, ".sharing.timeSlicing", "is ignored beside mps, as NVIDIA's plugin does");
    if (mps)
        return read_sharing(c, mps, PLUGIN_MPS, ".sharing.mps", e);
    return slices ? read_sharing(c, slices, PLUGIN_TIME_SLICING, ".sharing.timeSlicing", e) : 0;
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

static int read_doc(struct draft *d, const json_t *doc, struct err *e)
{
    static const struct jx_field known[] = {{.name = "version"},   {.name = "flags"},
                                            {.name = "resources"}, {.name = "sharing"},
                                            {.name = "imex"},      {0}};
    if (!json_is_object(doc))
        return err_set(e, ERR_INVALID, "the configuration must be an object");
    TRY(check_version(doc, e));
    note_unknown(&d->config, doc, known, "");
    const json_t *flags = json_object_get(doc, "flags");
    TRY(read_section(d, flags, IN_FLAGS, ".flags", e));
    TRY(read_section(d, json_object_get(flags, "plugin"), IN_PLUGIN, ".flags.plugin", e));
    TRY(read_section(d, json_object_get(flags, "gfd"), IN_GFD, ".flags.gfd", e));
    TRY(read_section(d, json_object_get(doc, "imex"), IN_IMEX, ".imex", e));
    if (block(doc, "resources"))
        notice(&d->config, ".resources",
               "is ignored as NVIDIA's plugin ignores it; resources have their usual names");
    return read_sharings(&d->config, block(doc, "sharing"), e);
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

static int set_text(struct draft *d, size_t option, const char *text, const char *where,
                    struct err *e)
{
    char *value = NULL;
    if (strlen(text) > MAX_TEXT)
        return err_set(e, ERR_TOO_LARGE, "%s: is too long", where);
    if (options[option].kind == OPT_BOOL)
        TRY(bool_text(text, where, &value, e));
    else
        value = xstrdup(text);
    set_take(d, option, value, xstrdup(where));
    return 0;
}

static const char *variable(const struct plugin_config_source *src, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *v = src->environment; v && *v; v++)
        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
            return (*v)[len + 1] ? *v + len + 1 : NULL;
    return NULL;
}

static int read_variables(struct draft *d, const struct plugin_config_source *src, struct err *e)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *text = variable(src, options[i].env);
        if (text)
            TRY(set_text(d, i, text, options[i].env, e));
    }
    return 0;
}

static int read_flags(struct draft *d, const struct plugin_config_source *src, struct err *e)
{
    for (size_t k = 0; k < src->n_flags; k++) {
        const struct plugin_setting *f = &src->flags[k];
        auto_free char *where = xasprintf("--%.100s", f->name);
        size_t i = 0;
        while (i < OPTIONS && (!options[i].flag || strcmp(options[i].flag, f->name) != 0))
            i++;
        if (i == OPTIONS)
            return err_set(e, ERR_INVALID, "%s: is not known", where);
        TRY(set_text(d, i, f->value, where, e));
    }
    return 0;
}

/* --- Interpretation --- */

/* The index of the option's value in words. */
static int word_of(const struct draft *d, enum option_id id, const char *const words[], int *ret,
                   struct err *e)
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
    for (const char *at = text_of(d, LIST_STRATEGY); next_word(&at, word, sizeof(word));) {
        unsigned way = 0;
        for (size_t i = 0; i < ARRAY_LEN(ways); i++)
            way |= strcmp(ways[i].word, word) == 0 ? ways[i].way : 0;
        if (!way)
            return err_set(e, ERR_INVALID,
                           "%s: \"%s\" is none of envvar, volume-mounts, cdi-annotations, cdi-cri",
                           where_of(d, LIST_STRATEGY), word);
        d->config.ways |= way;
    }
    if (d->config.ways)
        return 0;
    return err_set(e, ERR_INVALID, "%s: names no strategy", where_of(d, LIST_STRATEGY));
}

/* The plugin accepts an empty list and [0]. */
static int read_channels(struct draft *d, struct err *e)
{
    const char *text = text_of(d, IMEX_CHANNELS);
    if (*text && strcmp(text, "0") != 0)
        return err_set(e, ERR_INVALID, "%s: must be empty or 0, not \"%.40s\"",
                       where_of(d, IMEX_CHANNELS), text);
    d->config.imex_channel_0 = *text != '\0';
    d->config.imex_required = is_on(d, IMEX_REQUIRED);
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
    TRY(word_of(d, MIG_STRATEGY, api_mig_strategy_names, &d->config.mig_strategy, e));
    TRY(word_of(d, ID_STRATEGY, ids, &id, e));
    TRY(word_of(d, ALLOCATION_POLICY, policies, &policy, e));
    TRY(word_of(d, DISCOVERY, discoveries, &discovery, e));
    d->config.by_index = id == 1;
    d->config.packed = policy == 1;
    if (discovery == 2)
        notice(&d->config, where_of(d, DISCOVERY),
               "tegra is ignored: cards are found through NVML alone");
    return 0;
}

static int root_of(const struct draft *d, enum option_id id, char **ret, struct err *e)
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
    TRY(root_of(d, DRIVER_ROOT, &c->driver_root, e));
    TRY(root_of(d, *text_of(d, DEV_ROOT) ? DEV_ROOT : DRIVER_ROOT, &c->dev_root, e));
    TRY(root_of(d, CONTAINER_ROOT, &c->container_driver_root, e));
    TRY(root_of(d, MPS_ROOT, &c->mps_root, e));
    return root_of(d, GFD_MACHINE, &c->machine_type_file, e);
}

static void read_switches(struct draft *d)
{
    struct plugin_config *c = &d->config;
    c->fail_on_init_error = is_on(d, FAIL_ON_INIT_ERROR);
    c->pass_device_specs = is_on(d, PASS_DEVICE_SPECS);
    c->gdrcopy = is_on(d, GDRCOPY);
    c->gds = is_on(d, GDS);
    c->mofed = is_on(d, MOFED);
    c->no_timestamp = is_on(d, GFD_NO_TIMESTAMP);
    c->cdi_annotation_prefix = xstrdup(text_of(d, CDI_PREFIX));
    c->disable_health_checks = xstrdup(text_of(d, DISABLE_CHECKS));
    c->enable_health_checks = xstrdup(text_of(d, ENABLE_CHECKS));
}

static void read_said(struct draft *d)
{
    struct plugin_config *c = &d->config;
    c->said.mig_strategy = d->values[MIG_STRATEGY].text;
    c->said.ways = d->values[LIST_STRATEGY].text;
    c->said.driver_root = d->values[DRIVER_ROOT].text;
    c->said.dev_root = d->values[DEV_ROOT].text;
    c->said.container_driver_root = d->values[CONTAINER_ROOT].text;
    c->said.mps_root = d->values[MPS_ROOT].text;
}

static void note_ignored(struct draft *d)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (options[i].ignored && d->values[i].text &&
            strcmp(d->values[i].text, options[i].fallback) != 0)
            notice(&d->config, d->values[i].where, "is ignored: %s", options[i].ignored);
    if (d->values[FAIL_ON_INIT_ERROR].text && is_on(d, FAIL_ON_INIT_ERROR))
        notice(&d->config, where_of(d, FAIL_ON_INIT_ERROR),
               "is ignored: an agent without a driver waits for one, and says so in a condition");
}

int plugin_config_build(const struct plugin_config_source *src, struct plugin_config *ret,
                        struct err *e)
{
    AUTO(draft) struct draft d = {0};
    if (src->file_text)
        TRY(read_file(&d, src->file_text, src->file_bytes, e));
    TRY(read_variables(&d, src, e));
    TRY(read_flags(&d, src, e));
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

void plugin_config_ignore(struct plugin_config *c, const char *where, const char *why)
{
    notice(c, where, "%s", why);
}

char *plugin_config_words(const struct plugin_config *c)
{
    auto_sb struct sb text = SB_INIT(WORDS_BYTES);
    for (size_t i = 0; i < c->n_notices; i++) {
        const struct plugin_notice *n = &c->notices[i];
        size_t more = strlen(n->where) + strlen(n->why) + sizeof("; : ; and 100 more");
        if (text.len + more > WORDS_BYTES) {
            sb_addf(&text, "; and %zu more", c->n_notices - i);
            break;
        }
        sb_addf(&text, "%s%s: %s", i ? "; " : "", n->where, n->why);
    }
    return sb_take(&text);
}

void plugin_config_done(struct plugin_config *c)
{
    free(c->driver_root);
    free(c->dev_root);
    free(c->container_driver_root);
    free(c->cdi_annotation_prefix);
    free(c->mps_root);
    free(c->disable_health_checks);
    free(c->enable_health_checks);
    free(c->machine_type_file);
    for (size_t i = 0; i < c->n_shared; i++) {
        free(c->shared[i].name);
        free(c->shared[i].offered_as);
    }
    free(c->shared);
    for (size_t i = 0; i < c->n_notices; i++) {
        free(c->notices[i].where);
        free(c->notices[i].why);
    }
    free(c->notices);
    *c = (struct plugin_config){0};
}

/* --- Which file --- */

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
    const char *folder = variable(src, "CONFIG_FILE_SRCDIR");
    const char *named = file ? file : flag_of(src, "config-file");
    if (!named)
        named = folder ? NULL : variable(src, "CONFIG_FILE");
    if (!named && folder)
        return pick_in(folder, label, variable(src, "DEFAULT_CONFIG"), ret, e);
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
    if (!label && variable(src, "CONFIG_FILE_SRCDIR"))
        notice(ret, LABEL_PLUGIN_CONFIG,
               "the node's label is not known to the agent, which may not read Nodes: %s counts",
               path ? path : "no file");
    return 0;
}
