/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/hami_config.h"

#include <ctype.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/strmap.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"
#include "interop/host_selector.h"

#define DEVICE_FILE "device-config.yaml"
#define NODES_FILE  "config.json"

enum {
    MAX_NODES = 4096,
    MAX_FILE_BYTES = 1 << 20, /* of a ConfigMap */
    MAX_UUIDS = 256,          /* crds/gpuprofiles.yaml, as the following */
    MAX_UUID_BYTES = 96,
    MAX_INDICES = 64,
    MAX_INDEX = 255,
    LISTED_SECTIONS = 20,
};

/* Nodes that are to have the same. */
struct group {
    json_t *devices;
    const char **names; /* borrowed from the document */
    size_t n;
};

struct import {
    json_t *device, *nodes; /* the two files; NULL: not given */
    struct hami_settings settings;
    json_t *devices; /* of nodes without an entry */
    struct group *groups;
    size_t n_groups;
    struct strmap *by_devices; /* the text of devices → the place of its group, from 1 */
    struct strmap *seen;       /* names of nodes → anything */
    const char **others;       /* nodes that give no shares */
    size_t n_others;
    struct hami_import result;
};

static void import_done(struct import *x)
{
    for (size_t i = 0; i < x->n_groups; i++) {
        json_decref(x->groups[i].devices);
        free(x->groups[i].names);
    }
    free(x->groups);
    free(x->others);
    (void)strmap_free(x->by_devices);
    (void)strmap_free(x->seen);
    json_decref(x->device);
    json_decref(x->nodes);
    json_decref(x->devices);
    hami_import_done(&x->result);
}

void hami_import_done(struct hami_import *i)
{
    json_decref(i->profiles);
    hami_notices_done(&i->notices);
    *i = (struct hami_import){0};
}

/* --- The documents --- */

static bool has_kind(const json_t *doc, const char *kind)
{
    const char *is = JX_STR_AT(doc, "kind");
    return is && strcmp(is, kind) == 0;
}

static bool is_one(const json_t *doc)
{
    if (has_kind(doc, "ConfigMap"))
        return JX_AT(doc, "data", DEVICE_FILE) || JX_AT(doc, "data", NODES_FILE);
    return json_is_object(json_object_get(doc, "nvidia")) || hami_member(doc, "nodeconfig");
}

bool hami_config_is(const json_t *doc)
{
    const json_t *items = has_kind(doc, "List") ? json_object_get(doc, "items") : NULL;
    for (size_t i = 0; i < json_array_size(items); i++)
        if (is_one(json_array_get(items, i)))
            return true;
    return is_one(doc);
}

static int keep_file(json_t **to, const char *name, const json_t *file, struct err *e)
{
    if (*to)
        return err_set(e, ERR_INVALID, "%s is there twice: give one", name);
    *to = json_incref((json_t *)(uintptr_t)file);
    return 0;
}

/* The files in a ConfigMap's data. */
static int keep_data(struct import *x, const json_t *doc, struct err *e)
{
    const char *device = JX_STR_AT(doc, "data", DEVICE_FILE);
    const char *nodes = JX_STR_AT(doc, "data", NODES_FILE);
    auto_json json_t *file = NULL;
    auto_json json_t *list = NULL;
    if (!device && !nodes)
        return err_set(e, ERR_INVALID, "a ConfigMap has neither " DEVICE_FILE " nor " NODES_FILE);
    if (device && yaml_load(device, strlen(device), &file, e) < 0)
        return err_wrap(e, DEVICE_FILE);
    if (nodes && jx_parse(nodes, strlen(nodes), MAX_FILE_BYTES, &list, e) < 0)
        return err_wrap(e, NODES_FILE);
    if (file)
        TRY(keep_file(&x->device, DEVICE_FILE, file, e));
    return list ? keep_file(&x->nodes, NODES_FILE, list, e) : 0;
}

static int keep_one(struct import *x, const json_t *doc, struct err *e)
{
    if (has_kind(doc, "ConfigMap"))
        return keep_data(x, doc, e);
    if (!is_one(doc))
        return err_set(e, ERR_INVALID,
                       "a document is neither HAMi's " DEVICE_FILE " nor its " NODES_FILE
                       ", nor a ConfigMap with one");
    if (hami_member(doc, "nodeconfig"))
        return keep_file(&x->nodes, NODES_FILE, doc, e);
    return keep_file(&x->device, DEVICE_FILE, doc, e);
}

static int keep_all(struct import *x, const json_t *docs, struct err *e)
{
    for (size_t i = 0; i < json_array_size(docs); i++) {
        const json_t *doc = json_array_get(docs, i);
        const json_t *items = has_kind(doc, "List") ? json_object_get(doc, "items") : NULL;
        for (size_t k = 0; k < json_array_size(items); k++)
            TRY(keep_one(x, json_array_get(items, k), e));
        if (!items)
            TRY(keep_one(x, doc, e));
    }
    return 0;
}

/* --- What a node's cards are to be --- */

static json_t *shared_cards(const struct hami_settings *s)
{
    return json_pack("{s:{s:s}, s:s, s:{s:{s:I, s:I, s:I}}}", "selector", "vendor", "nvidia",
                     "mode", "native", "sharing", "fractional", "maxShares", (json_int_t)s->shares,
                     "memoryOversubscriptionPercent", (json_int_t)s->memory_percent,
                     "computeOversubscriptionPercent", (json_int_t)s->compute_percent);
}

/* The first entry that selects a card takes it. list_take: of `by`, "uuids" or "indices". */
static void add_whole(json_t *devices, const char *by, json_t *list_take)
{
    if (!list_take)
        return;
    (void)json_array_append_new(devices, json_pack("{s:{s:s, s:o}, s:s}", "selector", "vendor",
                                                   "nvidia", by, list_take, "mode", "native"));
}

static bool is_uuid(const json_t *v)
{
    const char *s = json_string_value(v);
    size_t len = s ? strlen(s) : 0;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && (i == 0 || !strchr("-_.:", s[i])))
            return false;
    return len > 0 && len <= MAX_UUID_BYTES;
}

static bool is_index(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= MAX_INDEX;
}

static bool has_value(const json_t *list, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), v))
            return true;
    return false;
}

/* A list of filterdevices, each value once. *ret is a new reference; NULL: it is absent or empty. */
static int read_filter(const json_t *filter, const char *name, bool (*is_good)(const json_t *),
                       size_t most, json_t **ret, struct err *e)
{
    const json_t *list = hami_member(filter, name);
    auto_json json_t *values = json_array();
    *ret = NULL;
    if (list && (!json_is_array(list) || json_array_size(list) > most))
        return err_set(e, ERR_INVALID, "filterdevices.%s must be a list of at most %zu", name,
                       most);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i);
        if (!is_good(v))
            return err_set(e, ERR_INVALID, "filterdevices.%s[%zu] is none of a card", name, i);
        if (!has_value(values, v))
            (void)json_array_append(values, v);
    }
    *ret = json_array_size(values) ? json_incref(values) : NULL;
    return 0;
}

/* *ret is a new reference. */
static int read_devices(struct import *x, const json_t *entry, const char *where,
                        const struct hami_settings *s, json_t **ret, struct err *e)
{
    const json_t *filter = hami_member(entry, "filterdevices");
    auto_json json_t *devices = json_array();
    auto_json json_t *uuids = NULL;
    auto_json json_t *indices = NULL;
    if (filter && !json_is_object(filter))
        return err_set(e, ERR_INVALID, "filterdevices must be an object with uuid and index");
    TRY(read_filter(filter, "uuid", is_uuid, MAX_UUIDS, &uuids, e));
    TRY(read_filter(filter, "index", is_index, MAX_INDICES, &indices, e));
    if (uuids || indices)
        hami_notices_add(&x->result.notices, where,
                         "has filterdevices: these cards are given out, too, as whole ones; "
                         "nothing here keeps a card from pods");
    add_whole(devices, "uuids", json_incref(uuids));
    add_whole(devices, "indices", json_incref(indices));
    (void)json_array_append_new(devices, shared_cards(s));
    *ret = json_incref(devices);
    return 0;
}

/* --- Nodes --- */

static void add_to_group(struct import *x, const char *node, json_t *devices)
{
    auto_free char *text = jx_dump(devices);
    uintptr_t place = (uintptr_t)strmap_get(x->by_devices, text);
    if (!place) {
        XPUSH(x->groups, x->n_groups)->devices = json_incref(devices);
        place = x->n_groups;
        (void)strmap_put(x->by_devices, text, (void *)place);
    }
    struct group *g = &x->groups[place - 1];
    *XPUSH(g->names, g->n) = node;
}

/* *ret: it gives shares, as HAMi's other modes do not. */
static int read_mode(struct import *x, const json_t *entry, const char *where, bool *ret,
                     struct err *e)
{
    const json_t *value = hami_member(entry, "operatingmode");
    const char *mode = value ? json_string_value(value) : "";
    *ret = mode && (!*mode || strcmp(mode, "hami-core") == 0);
    if (*ret)
        return 0;
    if (!mode || (strcmp(mode, "mig") != 0 && strcmp(mode, "mps") != 0))
        return err_set(e, ERR_INVALID, "operatingmode must be hami-core, mig or mps");
    hami_notices_add(&x->result.notices, where,
                     "has operatingmode %s, and no profile selects this node. Write one: %s", mode,
                     strcmp(mode, "mig") == 0
                         ? "mode mig, with the partitions that pods are to ask for"
                         : "sharing.mps, with the number of pods for a card");
    return 0;
}

/* The chart's examples of an entry. */
static bool is_example(const char *node)
{
    return strcmp(node, "your-node-name") == 0 || strcmp(node, "m5-cloudinfra-online02") == 0;
}

static int read_name(struct import *x, const json_t *entry, const char **ret, struct err *e)
{
    *ret = json_is_object(entry) ? json_string_value(hami_member(entry, "name")) : NULL;
    if (!*ret)
        return err_set(e, ERR_INVALID, "it must be an object with the node's name");
    TRY(host_selector_check("name", *ret, e));
    if (strmap_get(x->seen, *ret))
        return err_set(e, ERR_INVALID, "node %s has two entries; keep one", *ret);
    (void)strmap_put(x->seen, *ret, x);
    return 0;
}

static int read_node(struct import *x, const json_t *entry, const char *where, struct err *e)
{
    const char *name;
    bool shares;
    struct hami_settings s = x->settings;
    auto_json json_t *devices = NULL;
    TRY(read_name(x, entry, &name, e));
    if (is_example(name)) {
        hami_notices_add(&x->result.notices, where, "is the chart's example, and left out");
        return 0;
    }
    TRY(read_mode(x, entry, where, &shares, e));
    if (!shares) {
        *XPUSH(x->others, x->n_others) = name;
        return 0;
    }
    TRY(hami_settings_read_node(entry, where, &s, &x->result.notices, e));
    TRY(read_devices(x, entry, where, &s, &devices, e));
    if (!json_equal(devices, x->devices))
        add_to_group(x, name, devices);
    return 0;
}

static int read_nodes(struct import *x, struct err *e)
{
    const json_t *list = hami_member(x->nodes, "nodeconfig");
    if (!x->nodes)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > MAX_NODES)
        return err_set(e, ERR_INVALID, NODES_FILE ": nodeconfig must be a list of at most %d nodes",
                       MAX_NODES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        auto_free char *where = xasprintf("nodeconfig[%zu]", i);
        if (read_node(x, json_array_get(list, i), where, e) < 0)
            return err_wrap(e, NODES_FILE ": %s", where);
    }
    return 0;
}

/* --- Other vendors --- */

static void tell_sections(struct import *x)
{
    auto_sb struct sb names = SB_INIT(4096);
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(x->device, key, value) {
        if (strcmp(key, "nvidia") == 0)
            continue;
        if (n < LISTED_SECTIONS)
            sb_addf(&names, "%s%.40s", n ? ", " : "sections ", key);
        n++;
    }
    if (n)
        hami_notices_add(&x->result.notices, sb_str(&names),
                         "are not imported: shares are of NVIDIA's cards alone (MetaX's: "
                         "docs/metax.md)");
}

static int read_device(struct import *x, struct err *e)
{
    const json_t *section = json_object_get(x->device, "nvidia");
    if (!x->device) {
        hami_notices_add(&x->result.notices, DEVICE_FILE,
                         "is not given (ConfigMap hami-scheduler-device): what an entry does not "
                         "say is taken from HAMi's defaults, and nodes without one get no profile");
        return 0;
    }
    if (!section)
        return err_set(e, ERR_INVALID, DEVICE_FILE ": it has no section nvidia");
    if (hami_settings_read(section, &x->settings, &x->result.notices, e) < 0)
        return err_wrap(e, DEVICE_FILE);
    tell_sections(x);
    x->devices = json_pack("[o]", shared_cards(&x->settings));
    return 0;
}

/* --- Writing --- */

static void add_profile(struct import *x, const char *name, int priority, json_t *selector_take,
                        json_t *devices)
{
    (void)json_array_append_new(x->result.profiles,
                                json_pack("{s:s, s:s, s:{s:s}, s:{s:o, s:i, s:O}}", "apiVersion",
                                          API_GROUP_VERSION, "kind", "GPUProfile", "metadata",
                                          "name", name, "spec", "nodeSelector", selector_take,
                                          "priority", priority, "devices", devices));
}

/* expressions_take NULL: none more. */
static json_t *selector(json_t *expressions_take)
{
    return json_pack("{s:{s:s}, s:o*}", "matchLabels", HAMI_CONFIG_NODE_LABEL, "true",
                     "matchExpressions", expressions_take);
}

/* As many requirements as the names need, with one operator. */
static json_t *requirements(const char *op, const char *const *names, size_t n)
{
    json_t *list = json_array();
    for (size_t from = 0; from < n; from += HOST_SELECTOR_NODES) {
        size_t some = n - from < HOST_SELECTOR_NODES ? n - from : HOST_SELECTOR_NODES;
        (void)json_array_append_new(list, host_selector_requirement(op, names + from, some));
    }
    return list;
}

static void add_cluster(struct import *x)
{
    json_t *without = x->n_others ? requirements("NotIn", x->others, x->n_others) : NULL;
    if (x->devices)
        add_profile(x, "hami", HAMI_CONFIG_CLUSTER_PRIORITY, selector(without), x->devices);
    else
        json_decref(without);
}

static void add_group(struct import *x, const struct group *g, size_t *number)
{
    for (size_t from = 0; from < g->n; from += HOST_SELECTOR_NODES) {
        size_t some = g->n - from < HOST_SELECTOR_NODES ? g->n - from : HOST_SELECTOR_NODES;
        auto_free char *name = xasprintf("hami-nodes-%zu", ++*number);
        add_profile(x, name, HAMI_CONFIG_NODES_PRIORITY,
                    selector(requirements("In", g->names + from, some)), g->devices);
    }
}

int hami_config_read(const json_t *docs, struct hami_import *ret, struct err *e)
{
    struct import x __attribute__((cleanup(import_done))) = {
        .settings = HAMI_SETTINGS_DEFAULT,
        .by_devices = strmap_new(),
        .seen = strmap_new(),
        .result.profiles = json_array(),
    };
    size_t number = 0;
    TRY(keep_all(&x, docs, e));
    TRY(read_device(&x, e));
    TRY(read_nodes(&x, e));
    add_cluster(&x);
    for (size_t i = 0; i < x.n_groups; i++)
        add_group(&x, &x.groups[i], &number);
    if (json_array_size(x.result.profiles) == 0)
        return err_set(e, ERR_INVALID, "no node of it gives shares: there is nothing to import");
    *ret = x.result;
    x.result = (struct hami_import){0};
    return 0;
}
