/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/migparted.h"

#include <ctype.h>
#include <string.h>

#include "base/num.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"
#include "partition/mig_name.h"

enum {
    MAX_ENTRIES = 1024,
    MAX_PARTS = 64,
    MAX_KINDS = 32,
    MAX_INDEX = 255,
    MAX_COUNT = 64,
    NAME_BYTES = 63,
    ALIAS_BYTES = 253,
    ID_BYTES = 10
};

/* Unknown keys are errors at every level, as in mig-parted: a typing mistake must not become a
 * silent default. */
static int only_keys(const json_t *obj, const char *const known[], const char *where, struct err *e)
{
    const char *key = jx_unknown_key(obj, known);
    return key ? err_set(e, ERR_INVALID, "%s: unknown field \"%s\"", where, key) : 0;
}

static bool is_pci_id(const char *s)
{
    uint32_t id;
    return strncmp(s, "0x", 2) == 0 && strlen(s) == ID_BYTES && num_parse_hex32(s, &id, NULL) == 0;
}

/* "0xDDDDVVVV", optionally with a subsystem behind a colon. Anything else would silently match no
 * card. */
static int check_filter(const char *filter, struct err *e)
{
    const char *colon = strchr(filter, ':');
    auto_free char *device = xstrndup(filter, colon ? (size_t)(colon - filter) : strlen(filter));
    if (!is_pci_id(device) || (colon && !is_pci_id(colon + 1)))
        return err_set(e, ERR_INVALID,
                       "device-filter: \"%s\" is no PCI id such as 0x233010DE or "
                       "0x233010DE:0x16C110DE",
                       filter);
    return 0;
}

static int add_filter(const json_t *item, struct migconfig_entry *out, struct err *e)
{
    const char *text = json_string_value(item);
    if (!text)
        return err_set(e, ERR_INVALID, "device-filter must hold strings only");
    TRY(check_filter(text, e));
    for (size_t i = 0; i < out->n_filter; i++)
        if (strcmp(out->filter[i], text) == 0)
            return 0;
    *XPUSH(out->filter, out->n_filter) = xstrdup(text);
    return 0;
}

static int read_filter(const json_t *filter, struct migconfig_entry *out, struct err *e)
{
    if (!filter)
        return 0;
    if (json_is_string(filter))
        return add_filter(filter, out, e);
    if (!json_is_array(filter) || json_array_size(filter) > MAX_PARTS)
        return err_set(e, ERR_INVALID, "device-filter must be a string or a list of strings");
    if (json_array_size(filter) == 0)
        return err_set(e, ERR_INVALID, "device-filter is empty");
    size_t i;
    json_t *item;
    json_array_foreach(filter, i, item)
        TRY(add_filter(item, out, e));
    return 0;
}

/* Adds an index once, because a MIGConfig's indices are a set. */
static void add_index(struct migconfig_entry *out, int64_t index)
{
    for (size_t i = 0; i < out->n_indices; i++)
        if (out->indices[i] == index)
            return;
    *XPUSH(out->indices, out->n_indices) = index;
}

static int read_devices(const json_t *devices, struct migconfig_entry *out, struct err *e)
{
    if (json_is_string(devices) && strcmp(json_string_value(devices), "all") == 0)
        return 0;
    if (!json_is_array(devices) || json_array_size(devices) > MAX_PARTS)
        return err_set(e, ERR_INVALID, "devices must be \"all\" or a list of indices");
    if (json_array_size(devices) == 0)
        return err_set(e, ERR_INVALID, "devices is empty");
    size_t i;
    json_t *item;
    json_array_foreach(devices, i, item) {
        json_int_t index = json_integer_value(item);
        if (!json_is_integer(item) || index < 0 || index > MAX_INDEX)
            return err_set(e, ERR_INVALID, "devices must hold indices from 0 to %d", MAX_INDEX);
        add_index(out, index);
    }
    return 0;
}

static int read_mig_devices(const json_t *map, struct migconfig_entry *out, struct err *e)
{
    if (!map) {
        return out->mig_enabled
                   ? err_set(e, ERR_INVALID, "mig-devices is required with mig-enabled true")
                   : 0;
    }
    if (!json_is_object(map) || json_object_size(map) > MAX_KINDS)
        return err_set(e, ERR_INVALID, "mig-devices must map at most %d profiles to counts",
                       MAX_KINDS);
    if (!out->mig_enabled && json_object_size(map))
        return err_set(e, ERR_INVALID, "mig-devices goes with mig-enabled true only");
    json_int_t sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        struct mig_name name;
        json_int_t count = json_integer_value(value);
        TRY(mig_name_parse(key, &name, e));
        if (strchr(key, ' '))
            return err_set(e, ERR_INVALID, "mig-devices: write \"%s\" without \"MIG \"", key);
        if (!json_is_integer(value) || count < 0 || count > MAX_COUNT)
            return err_set(e, ERR_INVALID, "mig-devices: the count of %s must be from 0 to %d", key,
                           MAX_COUNT);
        struct jx_pair *p = XPUSH(out->mig_devices, out->n_mig_devices);
        p->key = xstrdup(key);
        p->num = count;
        sum += count;
    }
    if (out->n_mig_devices && sum == 0)
        return err_set(e, ERR_INVALID, "mig-devices: all counts are 0; write {} for none");
    return 0;
}

static int read_part(const json_t *part, struct migconfig_entry *out, struct err *e)
{
    static const char *const known[] = {"device-filter", "devices", "mig-enabled", "mig-devices",
                                        NULL};
    if (!json_is_object(part))
        return err_set(e, ERR_INVALID, "an entry must be an object");
    TRY(only_keys(part, known, "entry", e));
    const json_t *enabled = json_object_get(part, "mig-enabled");
    if (!json_is_boolean(enabled))
        return err_set(e, ERR_INVALID, "mig-enabled must be true or false");
    out->mig_enabled = json_is_true(enabled);
    TRY(read_filter(json_object_get(part, "device-filter"), out, e));
    TRY(read_devices(json_object_get(part, "devices"), out, e));
    return read_mig_devices(json_object_get(part, "mig-devices"), out, e);
}

static int read_parts(const json_t *list, struct migconfig_spec *out, struct err *e)
{
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > MAX_PARTS)
        return err_set(e, ERR_INVALID, "must be a list of 1 to %d entries", MAX_PARTS);
    size_t i;
    json_t *part;
    json_array_foreach(list, i, part) {
        if (read_part(part, XPUSH(out->devices, out->n_devices), e) < 0)
            return err_wrap(e, "entry %zu", i);
    }
    return 0;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c);
}

/* Lower case, with '-' for what a RFC 1123 subdomain cannot contain; a dot only between letters or
 * digits. */
static char *object_name_of(const char *name)
{
    char *s = xstrndup(name, NAME_BYTES);
    for (char *p = s; *p; p++) {
        bool inner_dot = *p == '.' && p > s && is_name_char(p[-1]) && is_name_char(p[1]);
        *p = (char)tolower((unsigned char)*p);
        if (!is_name_char(*p) && !inner_dot)
            *p = '-';
    }
    size_t len = strlen(s);
    while (len && !is_name_char(s[len - 1]))
        s[--len] = '\0';
    size_t lead = 0;
    while (lead < len && !is_name_char(s[lead]))
        lead++;
    memmove(s, s + lead, len - lead + 1);
    return s;
}

static bool name_taken(const struct migparted_file *f, const char *object_name)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->entries[i].object_name && strcmp(f->entries[i].object_name, object_name) == 0)
            return true;
    return false;
}

static int name_entry(struct migparted_file *f, struct migparted_entry *entry, const char *name,
                      struct err *e)
{
    entry->name = xstrdup(name);
    auto_free char *object_name = object_name_of(name);
    if (!*object_name)
        return err_set(e, ERR_INVALID, "the name has no letter or digit");
    if (strlen(name) > ALIAS_BYTES)
        return err_set(e, ERR_INVALID, "the name is longer than %d bytes", ALIAS_BYTES);
    if (name_taken(f, object_name))
        return err_set(e, ERR_EXISTS, "its object name \"%s\" is another entry's too", object_name);
    if (strcmp(object_name, name) != 0)
        *XPUSH(entry->spec.aliases, entry->spec.n_aliases) = xstrdup(name);
    entry->object_name = TAKE(object_name);
    return 0;
}

static int read_configs(const json_t *configs, struct migparted_file *f, struct err *e)
{
    size_t n = json_object_size(configs);
    if (!json_is_object(configs) || n == 0 || n > MAX_ENTRIES)
        return err_set(e, ERR_INVALID, "mig-configs must map 1 to %d names to lists", MAX_ENTRIES);
    const char *name;
    json_t *list;
    json_object_foreach((json_t *)(uintptr_t)configs, name, list) {
        struct migparted_entry *entry = XPUSH(f->entries, f->n);
        if (name_entry(f, entry, name, e) < 0 || read_parts(list, &entry->spec, e) < 0)
            return err_wrap(e, "mig-configs.%s", name);
    }
    return 0;
}

static int read_file(const json_t *doc, struct migparted_file *f, struct err *e)
{
    static const char *const known[] = {"version", "mig-configs", NULL};
    if (!json_is_object(doc))
        return err_set(e, ERR_INVALID, "not a mig-parted file: not an object");
    TRY(only_keys(doc, known, "mig-parted file", e));
    const char *version = json_string_value(json_object_get(doc, "version"));
    if (!version || strcmp(version, "v1") != 0)
        return err_set(e, ERR_INVALID, "mig-parted file: version must be \"v1\"");
    return read_configs(json_object_get(doc, "mig-configs"), f, e);
}

/* The file inside a ConfigMap, or else the document itself; a new reference. */
static int unwrap(const json_t *doc, json_t **ret, struct err *e)
{
    const char *kind = json_string_value(json_object_get(doc, "kind"));
    if (!kind || strcmp(kind, "ConfigMap") != 0) {
        *ret = json_incref((json_t *)(uintptr_t)doc);
        return 0;
    }
    const char *text = JX_STR_AT(doc, "data", "config.yaml");
    if (!text)
        return err_set(e, ERR_INVALID, "the ConfigMap has no data \"config.yaml\"");
    return yaml_load(text, strlen(text), ret, e);
}

int migparted_read(const json_t *doc, struct migparted_file *ret, struct err *e)
{
    auto_migparted_file struct migparted_file f = {0};
    auto_json json_t *file = NULL;
    TRY(unwrap(doc, &file, e));
    TRY(read_file(file, &f, e));
    *ret = f;
    f = (struct migparted_file){0};
    return 0;
}

void migparted_file_done(struct migparted_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->entries[i].name);
        free(f->entries[i].object_name);
        migconfig_spec_done(&f->entries[i].spec);
    }
    free(f->entries);
    *f = (struct migparted_file){0};
}

static json_t *write_part(const struct migconfig_entry *entry)
{
    json_t *part = json_object();
    if (entry->n_filter) {
        json_t *filter = json_array();
        for (size_t i = 0; i < entry->n_filter; i++)
            (void)json_array_append_new(filter, json_string(entry->filter[i]));
        (void)json_object_set_new(part, "device-filter", filter);
    }
    json_t *devices = entry->n_indices ? json_array() : json_string("all");
    for (size_t i = 0; i < entry->n_indices; i++)
        (void)json_array_append_new(devices, json_integer(entry->indices[i]));
    (void)json_object_set_new(part, "devices", devices);
    (void)json_object_set_new(part, "mig-enabled", json_boolean(entry->mig_enabled));
    if (!entry->mig_enabled)
        return part;
    json_t *map = json_object();
    for (size_t i = 0; i < entry->n_mig_devices; i++)
        (void)json_object_set_new(map, entry->mig_devices[i].key,
                                  json_integer(entry->mig_devices[i].num));
    (void)json_object_set_new(part, "mig-devices", map);
    return part;
}

json_t *migparted_write(const char *name, const struct migconfig_spec *spec)
{
    json_t *parts = json_array();
    for (size_t i = 0; i < spec->n_devices; i++)
        (void)json_array_append_new(parts, write_part(&spec->devices[i]));
    json_t *configs = json_object();
    (void)json_object_set_new(configs, name, parts);
    json_t *file = json_object();
    (void)json_object_set_new(file, "version", json_string("v1"));
    (void)json_object_set_new(file, "mig-configs", configs);
    return file;
}

json_t *migparted_object(const struct migparted_entry *entry)
{
    json_t *meta = json_object();
    (void)json_object_set_new(meta, "name", json_string(entry->object_name));
    json_t *obj = json_object();
    (void)json_object_set_new(obj, "apiVersion", json_string(API_GROUP_VERSION));
    (void)json_object_set_new(obj, "kind", json_string("MIGConfig"));
    (void)json_object_set_new(obj, "metadata", meta);
    (void)json_object_set_new(obj, "spec", migconfig_spec_encode(&entry->spec));
    return obj;
}
