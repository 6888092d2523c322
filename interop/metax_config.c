/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/metax_config.h"

#include <string.h>

#include "base/jx.h"
#include "base/strmap.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"
#include "interop/host_selector.h"

#define CLUSTER_KEY "cluster-config"
#define NODES_KEY   "nodes-config"
#define NAME        "metax-device-config"

enum { MAX_NODES = 4096 };

/* The vendor's modes. */
static const struct mode {
    const char *word;
    const char *mode; /* of a GPUProfile */
    int replicas;     /* of time-slicing; 0: none */
} modes[] = {
    {"native", "native", 0},
    {"sgpu", "sgpu", 0},
    {"shared", "native", METAX_CONFIG_SHARED_REPLICAS},
    {"vgpu", "vgpu", 0},
};

/* Names of nodes by mode, in the file's order. */
struct entries {
    const char **names[ARRAY_LEN(modes)]; /* borrowed from the document */
    size_t n[ARRAY_LEN(modes)];
    struct strmap *seen; /* name → anything */
};

static void entries_done(struct entries *x)
{
    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        free(x->names[i]);
    (void)strmap_free(x->seen);
}

/* --- Reading --- */

static int only_keys(const json_t *obj, const char *const known[], struct err *e)
{
    const char *key = jx_unknown_key(obj, known);
    return key ? err_set(e, ERR_INVALID, "unknown field \"%.60s\"", key) : 0;
}

static int mode_of(const json_t *obj, size_t *ret, struct err *e)
{
    const char *word = json_string_value(json_object_get(obj, "mode"));
    if (!word)
        return err_set(e, ERR_INVALID, "mode must be native, sgpu, shared or vgpu");
    for (*ret = 0; *ret < ARRAY_LEN(modes); (*ret)++)
        if (strcmp(modes[*ret].word, word) == 0)
            break;
    if (*ret == ARRAY_LEN(modes))
        return err_set(e, ERR_INVALID, "mode \"%.60s\" is none of native, sgpu, shared, vgpu",
                       word);
    return 0;
}

static int read_node(const json_t *obj, struct entries *to, struct err *e)
{
    static const char *const known[] = {"nodeName", "mode", NULL};
    size_t mode;
    const char *name = json_string_value(json_object_get(obj, "nodeName"));
    if (!json_is_object(obj))
        return err_set(e, ERR_INVALID, "it must be an object with nodeName and mode");
    TRY(only_keys(obj, known, e));
    if (!name)
        return err_set(e, ERR_INVALID, "nodeName must be a string");
    TRY(host_selector_check("nodeName", name, e));
    if (mode_of(obj, &mode, e) < 0)
        return err_wrap(e, "node %s", name);
    if (strmap_get(to->seen, name))
        return err_set(e, ERR_INVALID, "node %s has two entries; keep one", name);
    (void)strmap_put(to->seen, name, to);
    *XPUSH(to->names[mode], to->n[mode]) = name;
    return 0;
}

static int read_nodes(const json_t *list, struct entries *to, struct err *e)
{
    if (!json_is_array(list) || json_array_size(list) > MAX_NODES)
        return err_set(e, ERR_INVALID, NODES_KEY ": must be a list of at most %d nodes", MAX_NODES);
    to->seen = strmap_new();
    for (size_t i = 0; i < json_array_size(list); i++)
        if (read_node(json_array_get(list, i), to, e) < 0)
            return err_wrap(e, NODES_KEY "[%zu]", i);
    return 0;
}

static int read_cluster(const json_t *obj, const struct mode **ret, struct err *e)
{
    static const char *const known[] = {"mode", NULL};
    size_t mode;
    if (!json_is_object(obj))
        return err_set(e, ERR_INVALID, "it must be an object with mode");
    TRY(only_keys(obj, known, e));
    TRY(mode_of(obj, &mode, e));
    *ret = &modes[mode];
    return 0;
}

/* Reads data's value: a text in a ConfigMap, perhaps a parsed value in a file that a person wrote.
 * NULL: the key is absent or empty. *ret is a new reference. */
static int value_of(const json_t *data, const char *key, json_t **ret, struct err *e)
{
    json_t *value = json_object_get(data, key);
    auto_json json_t *docs = NULL;
    *ret = NULL;
    if (!json_is_string(value)) {
        *ret = json_is_null(value) ? NULL : json_incref(value);
        return 0;
    }
    if (yaml_load_all(json_string_value(value), json_string_length(value), &docs, e) < 0)
        return err_wrap(e, "%s", key);
    if (json_array_size(docs) > 1)
        return err_set(e, ERR_INVALID, "%s: it holds more than one document", key);
    json_t *doc = json_array_get(docs, 0);
    *ret = json_is_null(doc) ? NULL : json_incref(doc);
    return 0;
}

/* --- Writing --- */

/* NULL: the mode does not share a card. */
static json_t *sharing(const struct mode *mode)
{
    return mode->replicas ? json_pack("{s:{s:i}}", "timeSlicing", "replicas", mode->replicas)
                          : NULL;
}

static json_t *profile(const char *name, int priority, json_t *selector_take,
                       const struct mode *mode)
{
    return json_pack("{s:s, s:s, s:{s:s}, s:{s:o, s:i, s:[{s:{s:s}, s:s, s:o*}]}}", "apiVersion",
                     API_GROUP_VERSION, "kind", "GPUProfile", "metadata", "name", name, "spec",
                     "nodeSelector", selector_take, "priority", priority, "devices", "selector",
                     "vendor", "metax", "mode", mode->mode, "sharing", sharing(mode));
}

static json_t *select_nodes(const char *const *names, size_t n)
{
    return json_pack("{s:[o]}", "matchExpressions", host_selector_requirement("In", names, n));
}

static void add_nodes(const struct mode *mode, const char *const *names, size_t n, json_t *to)
{
    for (size_t from = 0; from < n; from += HOST_SELECTOR_NODES) {
        size_t some = n - from < HOST_SELECTOR_NODES ? n - from : HOST_SELECTOR_NODES;
        auto_free char *name =
            from ? xasprintf(NAME "-%s-%zu", mode->word, from / HOST_SELECTOR_NODES + 1)
                 : xasprintf(NAME "-%s", mode->word);
        (void)json_array_append_new(to, profile(name, METAX_CONFIG_NODES_PRIORITY,
                                                select_nodes(names + from, some), mode));
    }
}

static void add_cluster(const struct mode *mode, json_t *to)
{
    (void)json_array_append_new(to,
                                profile(NAME, METAX_CONFIG_CLUSTER_PRIORITY, json_object(), mode));
}

/* --- The whole document --- */

static bool is_config_map(const json_t *doc)
{
    const char *kind = json_string_value(json_object_get(doc, "kind"));
    return kind && strcmp(kind, "ConfigMap") == 0;
}

static const json_t *data_of(const json_t *doc)
{
    return is_config_map(doc) ? json_object_get(doc, "data") : doc;
}

bool metax_config_is(const json_t *doc)
{
    const json_t *data = data_of(doc);
    return json_object_get(data, CLUSTER_KEY) || json_object_get(data, NODES_KEY);
}

static int check_data(const json_t *data, struct err *e)
{
    static const char *const known[] = {"version", CLUSTER_KEY, NODES_KEY, NULL};
    const json_t *version = json_object_get(data, "version");
    const char *text = json_string_value(version);
    if (!json_is_object(data))
        return err_set(e, ERR_INVALID, NAME ": it has no data");
    if (only_keys(data, known, e) < 0)
        return err_wrap(e, NAME);
    if (version && (!text || strcmp(text, "v1") != 0))
        return err_set(e, ERR_INVALID, NAME ": version must be \"v1\"");
    return 0;
}

int metax_config_read(const json_t *doc, json_t **ret, struct err *e)
{
    const json_t *data = data_of(doc);
    const struct mode *mode = NULL;
    struct entries nodes __attribute__((cleanup(entries_done))) = {0};
    auto_json json_t *cluster = NULL;
    auto_json json_t *list = NULL;
    auto_json json_t *profiles = json_array();
    TRY(check_data(data, e));
    TRY(value_of(data, CLUSTER_KEY, &cluster, e));
    TRY(value_of(data, NODES_KEY, &list, e));
    if (cluster && read_cluster(cluster, &mode, e) < 0)
        return err_wrap(e, CLUSTER_KEY);
    if (list)
        TRY(read_nodes(list, &nodes, e));
    if (mode)
        add_cluster(mode, profiles);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        add_nodes(&modes[i], nodes.names[i], nodes.n[i], profiles);
    if (json_array_size(profiles) == 0)
        return err_set(e, ERR_INVALID, NAME ": it names no mode");
    *ret = json_incref(profiles);
    return 0;
}
