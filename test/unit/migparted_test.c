/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "interop/migparted.h"

static int read_text(const char *text, struct migparted_file *f, struct err *e)
{
    auto_json json_t *doc = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &doc, e), 0, "%s: %s", text, err_msg(e));
    return migparted_read(doc, f, e);
}

static void read_good(const char *text, struct migparted_file *f)
{
    auto_err struct err e = {0};
    cr_assert_eq(read_text(text, f, &e), 0, "%s: %s", text, err_msg(&e));
}

static const struct migparted_entry *entry_named(const struct migparted_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->entries[i].name, name) == 0)
            return &f->entries[i];
    cr_assert(false, "no entry %s", name);
    return NULL;
}

#define FILE_WITH(parts) "version: v1\nmig-configs: {a: [" parts "]}"
#define GOOD             "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}"

Test(migparted, an_entry_says_what_it_says_in_mig_parted)
{
    auto_migparted_file struct migparted_file f;
    read_good("version: v1\n"
              "mig-configs:\n"
              "  mixed:\n"
              "  - device-filter: ['0x233010DE', '0x20B010DE:0x145F10DE']\n"
              "    devices: [0, 1]\n"
              "    mig-enabled: true\n"
              "    mig-devices: {1g.10gb: 2, 3g.40gb: 1}\n"
              "  - device-filter: '0x20B210DE'\n"
              "    devices: all\n"
              "    mig-enabled: false\n",
              &f);
    cr_assert_eq(f.n, 1);
    const struct migconfig_spec *s = &f.entries[0].spec;
    cr_expect_eq(s->n_aliases, 0);
    cr_assert_eq(s->n_devices, 2);
    cr_expect_eq(s->devices[0].n_filter, 2);
    cr_expect_str_eq(s->devices[0].filter[1], "0x20B010DE:0x145F10DE");
    cr_expect_eq(s->devices[0].n_indices, 2);
    cr_expect_eq(s->devices[0].n_mig_devices, 2);
    cr_expect_str_eq(s->devices[1].filter[0], "0x20B210DE");
    cr_expect_eq(s->devices[1].n_indices, 0);
    cr_expect_not(s->devices[1].mig_enabled);
}

Test(migparted, whatever_it_does_not_know_is_an_error_that_names_it)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"[]", "not an object"},
        {"version: v1", "mig-configs"},
        {"{version: v2, mig-configs: {a: [" GOOD "]}}", "version must be \"v1\""},
        {"{mig-configs: {a: [" GOOD "]}}", "version"},
        {"{version: v1, mig-configs: {}}", "mig-configs"},
        {"{version: v1, mig-configs: []}", "mig-configs"},
        {"{version: v1, mig-configs: {a: [" GOOD "]}, extra: 1}", "unknown field \"extra\""},
        {"{version: v1, mig-configs: {a: []}}", "mig-configs.a: must be a list"},
        {"{version: v1, mig-configs: {a: {}}}", "mig-configs.a: must be a list"},
        {"{version: v1, mig-configs: {'__': [" GOOD "]}}", "no letter or digit"},
        {FILE_WITH("1"), "mig-configs.a: entry 0: an entry must be an object"},
        {FILE_WITH(GOOD ", {devices: all, mig-enabled: maybe}"),
         "entry 1: mig-enabled must be true or false"},
        {FILE_WITH("{devices: all}"), "mig-enabled must be"},
        {FILE_WITH("{mig-enabled: false}"), "devices must be"},
        {FILE_WITH("{devices: some, mig-enabled: false}"), "devices must be"},
        {FILE_WITH("{devices: [], mig-enabled: false}"), "devices is empty"},
        {FILE_WITH("{devices: ['0'], mig-enabled: false}"), "indices from 0 to 255"},
        {FILE_WITH("{devices: [-1], mig-enabled: false}"), "indices from 0 to 255"},
        {FILE_WITH("{devices: [256], mig-enabled: false}"), "indices from 0 to 255"},
        {FILE_WITH("{devices: all, mig-enabled: true}"), "mig-devices is required"},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: [1g.5gb]}"), "must map"},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {tiny: 1}}"), "tiny"},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {MIG 1g.5gb: 1}}"),
         "without \"MIG \""},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}"), "1g.5gb"},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 65}}"), "1g.5gb"},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: x}}"), "1g.5gb"},
        {FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}"), "all counts"},
        {FILE_WITH("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}"),
         "goes with mig-enabled true"},
        {FILE_WITH("{device-filter: [], devices: all, mig-enabled: false}"), "is empty"},
        {FILE_WITH("{device-filter: 7, devices: all, mig-enabled: false}"), "device-filter"},
        {FILE_WITH("{device-filter: [7], devices: all, mig-enabled: false}"), "strings only"},
        {FILE_WITH("{device-filter: ['H100'], devices: all, mig-enabled: false}"), "\"H100\""},
        {FILE_WITH("{device-filter: ['0x2330'], devices: all, mig-enabled: false}"), "0x2330"},
        {FILE_WITH("{device-filter: ['0x233010DE:'], devices: all, mig-enabled: false}"),
         "0x233010DE:"},
        {FILE_WITH("{devices: all, mig-enabled: false, mig_devices: {}}"),
         "unknown field \"mig_devices\""},
        {"kind: ConfigMap", "no data \"config.yaml\""},
        {"{kind: ConfigMap, data: {config.yaml: '{'}}", "line"},
        {"{kind: ConfigMap, data: {config.yaml: ''}}", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_err struct err e = {0};
        struct migparted_file f = {.n = 77};
        cr_expect_lt(read_text(cases[i].text, &f, &e), 0, "%s", cases[i].text);
        cr_expect_not_null(strstr(err_msg(&e), cases[i].part), "%s: %s", cases[i].text,
                           err_msg(&e));
        cr_expect_eq(f.n, 77, "outs are untouched");
    }
}

Test(migparted, a_name_that_is_no_object_name_is_kept_as_an_alias)
{
    static const struct {
        const char *name, *object_name;
    } cases[] = {
        {"all-1g.10gb", "all-1g.10gb"},
        {"Two_Cards_Cut", "two-cards-cut"},
        {"_edge_", "edge"},
        {"a..b", "a--b"},
        {"a.-b", "a--b"},
        {"a b/c", "a-b-c"},
        {"-.x.-", "x"},
        {"all-1g.5gb+me", "all-1g.5gb-me"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text =
            xasprintf("version: v1\nmig-configs: {\"%s\": [" GOOD "]}", cases[i].name);
        auto_migparted_file struct migparted_file f;
        read_good(text, &f);
        const struct migparted_entry *entry = &f.entries[0];
        cr_expect_str_eq(entry->name, cases[i].name);
        cr_expect_str_eq(entry->object_name, cases[i].object_name);
        bool legal = strcmp(cases[i].name, cases[i].object_name) == 0;
        cr_assert_eq(entry->spec.n_aliases, legal ? 0 : 1, "%s", cases[i].name);
        if (!legal)
            cr_expect_str_eq(entry->spec.aliases[0], cases[i].name);
    }
}

Test(migparted, two_names_of_one_object_are_an_error)
{
    auto_err struct err e = {0};
    struct migparted_file f;
    cr_expect_eq(read_text("version: v1\nmig-configs: {a_b: [" GOOD "], a-b: [" GOOD "]}", &f, &e),
                 -(int)ERR_EXISTS);
    cr_expect_not_null(strstr(err_msg(&e), "\"a-b\""), "%s", err_msg(&e));
}

Test(migparted, what_stands_twice_is_read_once)
{
    auto_migparted_file struct migparted_file f;
    read_good(FILE_WITH("{device-filter: ['0x233010DE', '0x233010DE'], devices: [1, 1, 0],"
                        " mig-enabled: true, mig-devices: {}}"),
              &f);
    cr_expect_eq(f.entries[0].spec.devices[0].n_filter, 1);
    cr_expect_eq(f.entries[0].spec.devices[0].n_indices, 2);
}

/* The names that gpu-operator's default ConfigMap has, and what they mean, are all understood, and
 * what is written reads back the same. */
Test(migparted, the_default_configmap_of_gpu_operator_round_trips)
{
    auto_free char *text = NULL;
    size_t len = 0;
    auto_err struct err e = {0};
    cr_assert_eq(file_read("test/unit/data/default-mig-parted-config.yaml", 1 << 20, &text, &len,
                           &e),
                 0, "%s", err_msg(&e));
    auto_migparted_file struct migparted_file f;
    read_good(text, &f);
    cr_expect_gt(f.n, 80);
    cr_expect_eq(entry_named(&f, "all-balanced")->spec.n_devices, 12);
    cr_expect_eq(entry_named(&f, "all-1g.10gb")->spec.devices[1].mig_devices[0].num, 4);
    cr_expect_str_eq(entry_named(&f, "all-1g.24gb-me")->spec.devices[0].mig_devices[0].key,
                     "1g.24gb-me");
    for (size_t i = 0; i < f.n; i++) {
        const struct migparted_entry *entry = &f.entries[i];
        auto_json json_t *written = migparted_write(entry->name, &entry->spec);
        auto_migparted_file struct migparted_file again;
        cr_assert_eq(migparted_read(written, &again, &e), 0, "%s", err_msg(&e));
        auto_json json_t *before = migparted_object(entry);
        auto_json json_t *after = migparted_object(&again.entries[0]);
        cr_expect(json_equal(before, after), "%s", entry->name);
        auto_migconfig_spec struct migconfig_spec s;
        cr_expect_eq(migconfig_spec_decode(before, &s, &e), 0, "%s: %s", entry->name, err_msg(&e));
    }
}

/* The schema demands the field wherever MIG is on. */
Test(migparted, mig_without_partitions_is_said_by_an_empty_map)
{
    auto_migparted_file struct migparted_file f;
    read_good(FILE_WITH("{devices: all, mig-enabled: true, mig-devices: {}}"), &f);
    auto_json json_t *obj = migparted_object(&f.entries[0]);
    const json_t *entry = json_array_get(JX_AT(obj, "spec", "devices"), 0);
    cr_expect(json_is_object(json_object_get(entry, "migDevices")));
}

Test(migparted, the_object_carries_name_and_kind)
{
    auto_migparted_file struct migparted_file f;
    read_good("version: v1\nmig-configs: {Halves: [" GOOD "]}", &f);
    auto_json json_t *obj = migparted_object(&f.entries[0]);
    auto_json json_t *expected =
        json_pack("{s:s, s:s, s:{s:s}, s:{s:[s], s:[{s:b, s:{s:i}}]}}", "apiVersion",
                  "gpu.cleave.dev/v1alpha1", "kind", "MIGConfig", "metadata", "name", "halves",
                  "spec", "aliases", "Halves", "devices", "migEnabled", 1, "migDevices", "1g.5gb",
                  7);
    auto_free char *text = yaml_dump(obj);
    cr_expect(json_equal(obj, expected), "%s", text);
}
