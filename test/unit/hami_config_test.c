/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/gpuprofile.h"
#include "golden_support.h"
#include "interop/hami_config.h"

static struct hami_import import; /* the last one */

static void tear_down(void)
{
    hami_import_done(&import);
}

TestSuite(hami_config, .fini = tear_down);

static json_t *loaded(const char *text)
{
    auto_err struct err e = {0};
    json_t *docs = NULL;
    cr_assert_eq(yaml_load_all(text, strlen(text), &docs, &e), 0, "%s: %s", text, err_msg(&e));
    return docs;
}

static void read_text(const char *text)
{
    auto_err struct err e = {0};
    auto_json json_t *docs = loaded(text);
    hami_import_done(&import);
    cr_assert_eq(hami_config_read(docs, &import, &e), 0, "%s: %s", text, err_msg(&e));
}

/* "name: shares memory compute; …" of each profile, in lines. */
static const char *told(void)
{
    static char text[4096];
    struct sb out = SB_INIT(sizeof(text) - 1);
    for (size_t i = 0; i < json_array_size(import.profiles); i++) {
        auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
        auto_err struct err e = {0};
        const json_t *p = json_array_get(import.profiles, i);
        cr_assert_eq(gpuprofile_spec_decode(p, &spec, &e), 0, "%s", err_msg(&e));
        const struct gpuprofile_entry *last = &spec.devices[spec.n_devices - 1];
        cr_assert(last->sharing.has_fractional);
        sb_addf(&out, "%s: %d %d %d\n", JX_STR_AT(p, "metadata", "name"),
                (int)last->sharing.fractional.max_shares,
                (int)last->sharing.fractional.memory_percent,
                (int)last->sharing.fractional.compute_percent);
    }
    (void)snprintf(text, sizeof(text), "%s", sb_str(&out));
    sb_done(&out);
    return text;
}

static void expect_told(const char *text, const char *expected)
{
    read_text(text);
    cr_expect_str_eq(told(), expected, "%s: %s", text, told());
}

/* The only notice is this. */
static void expect_notice(const char *text, const char *where, const char *part)
{
    read_text(text);
    cr_assert_eq(import.notices.n, 1, "%s: %zu", text, import.notices.n);
    cr_expect_str_eq(import.notices.items[0].where, where);
    cr_expect(strstr(import.notices.items[0].why, part), "%s: %s", text,
              import.notices.items[0].why);
}

static void expect_refused(const char *text, const char *why)
{
    auto_err struct err e = {0};
    auto_json json_t *docs = loaded(text);
    struct hami_import none = {0};
    cr_expect_eq(hami_config_read(docs, &none, &e), -ERR_INVALID, "%s", text);
    cr_expect(strstr(err_msg(&e), why), "%s: %s", text, err_msg(&e));
}

#define SECTION(keys) "{nvidia: {" keys "}}"
/* Beside a section, so that nothing is said of its absence. */
#define NODES(entries) "{nvidia: {}}\n---\n{nodeconfig: [" entries "]}"

/* --- The whole --- */

Test(hami_config, the_configmaps_of_a_cluster_become_these_profiles_and_notices)
{
    auto_free char *text = NULL;
    size_t len;
    struct sb out = SB_INIT(1 << 16);
    cr_assert_eq(file_read("test/unit/data/hami-config.yaml", 1 << 16, &text, &len, NULL), 0);
    read_text(text);
    for (size_t i = 0; i < json_array_size(import.profiles); i++) {
        auto_free char *one = yaml_dump(json_array_get(import.profiles, i));
        sb_addf(&out, "%s%s", i ? "---\n" : "", one);
    }
    for (size_t i = 0; i < import.notices.n; i++)
        sb_addf(&out, "# %s %s\n", import.notices.items[i].where, import.notices.items[i].why);
    golden_check("hami_config/profiles.yaml", sb_str(&out));
    sb_done(&out);
}

Test(hami_config, the_files_themselves_are_as_good_as_their_configmaps)
{
    static const char *const same[] = {
        "{nvidia: {deviceSplitCount: 5}}\n---\n{nodeconfig: [{name: a, devicesplitcount: 6}]}",
        "{kind: ConfigMap, data: {device-config.yaml: 'nvidia: {deviceSplitCount: 5}'}}\n---\n"
        "{kind: ConfigMap, data: {config.json: '{\"nodeconfig\":[{\"name\":\"a\","
        "\"devicesplitcount\":6}]}'}}",
        "{kind: ConfigMap, data: {device-config.yaml: 'nvidia: {deviceSplitCount: 5}', "
        "config.json: '{\"nodeconfig\":[{\"name\":\"a\",\"devicesplitcount\":6}]}'}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        expect_told(same[i], "hami: 5 100 100\nhami-nodes-1: 6 100 100\n");
}

Test(hami_config, other_documents_are_none)
{
    static const char *const others[] = {
        "{version: v1, mig-configs: {}}",
        "{cluster-config: 'mode: native'}",
        "{kind: ConfigMap, data: {config.yaml: ''}}",
        "{kind: List, items: [{kind: Pod}]}",
        "{nvidia: text}",
        "[]",
        "text",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        auto_json json_t *docs = loaded(others[i]);
        cr_expect_not(hami_config_is(json_array_get(docs, 0)), "%s", others[i]);
    }
}

/* --- The section nvidia --- */

Test(hami_config, settings_are_translated_and_what_is_not_said_is_hamis_default)
{
    expect_told(SECTION(""), "hami: 10 100 100\n");
    cr_expect_eq(import.notices.n, 0);
    expect_told(SECTION("deviceSplitCount: 4, deviceMemoryScaling: 1.15, deviceCoreScaling: 2"),
                "hami: 4 115 200\n");
    expect_told(SECTION("deviceSplitCount: 0, deviceMemoryScaling: 0, deviceCoreScaling: null"),
                "hami: 10 100 100\n");
    cr_expect_eq(import.notices.n, 0);
}

Test(hami_config, settings_beyond_the_bounds_are_the_bound_and_said)
{
    expect_notice(SECTION("deviceSplitCount: 500"), "nvidia.deviceSplitCount", "128 shares");
    cr_expect_str_eq(told(), "hami: 128 100 100\n");
    expect_notice(SECTION("deviceMemoryScaling: 5"), "nvidia.deviceMemoryScaling", "400 %");
    cr_expect_str_eq(told(), "hami: 10 400 100\n");
    expect_notice(SECTION("deviceMemoryScaling: 1e300"), "nvidia.deviceMemoryScaling", "400 %");
    expect_notice(SECTION("deviceCoreScaling: 0.5"), "nvidia.deviceCoreScaling", "100 %");
    cr_expect_str_eq(told(), "hami: 10 100 100\n");
}

Test(hami_config, names_of_resources_other_than_hamis_own_are_refused)
{
    static const char *const names[][2] = {
        {"resourceCountName", "nvidia.com/gpu"},
        {"resourceMemoryName", "nvidia.com/gpumem"},
        {"resourceMemoryPercentageName", "nvidia.com/gpumem-percentage"},
        {"resourceCoreName", "nvidia.com/gpucores"},
        {"resourcePriorityName", "nvidia.com/priority"},
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *text = xasprintf(SECTION("%s: example.com/vgpu"), names[i][0]);
        auto_free char *why =
            xasprintf("device-config.yaml: nvidia: %s: is \"example.com/vgpu\": shares are asked "
                      "for as %s, ",
                      names[i][0], names[i][1]);
        expect_refused(text, why);
        auto_free char *same = xasprintf(SECTION("%s: %s"), names[i][0], names[i][1]);
        read_text(same);
        cr_expect_eq(import.notices.n, 0);
    }
}

Test(hami_config, a_factor_of_memory_is_refused)
{
    expect_refused(SECTION("memoryFactor: 1024"), "nvidia: memoryFactor: is \"1024\": "
                                                  "nvidia.com/gpumem counts MiB");
}

Test(hami_config, each_other_key_has_a_notice_when_it_asks_for_something)
{
    static const struct {
        const char *key, *quiet, *loud, *why;
    } keys[] = {
        {"defaultMemory", "0", "5000", "(nvidia.com/gpumem)"},
        {"defaultCores", "0", "10", "(nvidia.com/gpucores)"},
        {"defaultGPUNum", "1", "2", "Write nvidia.com/gpu into the pods"},
        {"overwriteEnv", "false", "true", "NVIDIA_VISIBLE_DEVICES"},
        {"preConfiguredDeviceMemory", "0", "98304", "what its driver says"},
        {"enableNumaTopology", "false", "true", "nvidia.com/numa-bind"},
        {"gpuCorePolicy", "default", "force", "nothing holds a container"},
        {"libCudaLogLevel", "1", "4", "libvgpu.so"},
        {"runtimeClassName", "''", "nvidia", "is \"nvidia\": pods get no RuntimeClass"},
        {"knownMigGeometries", "[]", "[{models: [A30]}]", "mode mig"},
        {"migProfileAllowlist", "[]", "[{models: [A30]}]", "mode mig"},
        {"novelty", "null", "null", "is not known"},
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        auto_free char *loud = xasprintf(SECTION("%s: %s"), keys[i].key, keys[i].loud);
        auto_free char *quiet = xasprintf(SECTION("%s: %s"), keys[i].key, keys[i].quiet);
        auto_free char *where = xasprintf("nvidia.%s", keys[i].key);
        expect_notice(loud, where, keys[i].why);
        if (strcmp(keys[i].loud, keys[i].quiet) == 0)
            continue;
        read_text(quiet);
        cr_expect_eq(import.notices.n, 0, "%s", quiet);
    }
    read_text(SECTION("disableCoreLimit: true"));
    cr_expect_eq(import.notices.n, 0, "nothing is limited here either");
}

Test(hami_config, a_value_of_a_wrong_type_names_its_key)
{
    expect_refused(SECTION("deviceSplitCount: '10'"),
                   "nvidia: deviceSplitCount: it must be a whole");
    expect_refused(SECTION("deviceSplitCount: -1"), "nvidia: deviceSplitCount: it must be a whole");
    expect_refused(SECTION("deviceMemoryScaling: much"),
                   "nvidia: deviceMemoryScaling: it must be a "
                   "number");
    expect_refused(SECTION("deviceMemoryScaling: -0.1"), "nvidia: deviceMemoryScaling: it must be");
    expect_refused(SECTION("overwriteEnv: 1"), "nvidia: overwriteEnv: it must be true or false");
    expect_refused(SECTION("gpuCorePolicy: [force]"), "nvidia: gpuCorePolicy: it must be a text");
    expect_refused(SECTION("knownMigGeometries: {}"), "nvidia: knownMigGeometries: it must be a "
                                                      "list");
    expect_refused("{kind: ConfigMap, data: {device-config.yaml: '[a'}}",
                   "device-config.yaml: YAML line 2");
    expect_refused("{kind: ConfigMap, data: {device-config.yaml: 'amd: {}'}}",
                   "device-config.yaml: it has no section nvidia");
    expect_refused("{kind: ConfigMap, data: {device-config.yaml: 'nvidia: 3'}}",
                   "device-config.yaml: nvidia: it must be an object");
    expect_refused(SECTION("") "\n---\n" SECTION(""), "device-config.yaml is there twice");
    expect_refused(SECTION("") "\n---\n{kind: Pod}", "a document is neither HAMi's");
    expect_refused(SECTION("") "\n---\n{kind: ConfigMap}", "a ConfigMap has neither");
}

Test(hami_config, other_vendors_are_named_once)
{
    expect_notice("{nvidia: {}, hygon: {}, vnpus: []}", "sections hygon, vnpus",
                  "NVIDIA's cards alone");
}

/* --- The nodes --- */

Test(hami_config, an_entry_is_completed_by_the_section_and_equal_nodes_have_one_profile)
{
    expect_told("{nvidia: {deviceSplitCount: 5, deviceMemoryScaling: 2}}\n---\n{nodeconfig: ["
                "{name: a, devicesplitcount: 6}, {name: b, deviceCoreScaling: 3}, "
                "{name: c, devicesplitcount: 6, devicememoryscaling: 0}, {name: d}]}",
                "hami: 5 200 100\nhami-nodes-1: 6 200 100\nhami-nodes-2: 5 200 300\n");
    const json_t *spec = JX_AT(json_array_get(import.profiles, 1), "spec");
    const json_t *in = json_array_get(JX_AT(spec, "nodeSelector", "matchExpressions"), 0);
    auto_free char *nodes = jx_dump(JX_AT(in, "values"));
    cr_expect_str_eq(nodes, "[\"a\",\"c\"]");
    cr_expect_str_eq(JX_STR_AT(spec, "nodeSelector", "matchLabels", HAMI_CONFIG_NODE_LABEL),
                     "true");
}

Test(hami_config, nodes_alone_are_completed_by_hamis_defaults_and_that_is_said)
{
    expect_notice("{nodeconfig: [{name: a}]}", "device-config.yaml", "HAMi's defaults");
    cr_expect_str_eq(told(), "hami-nodes-1: 10 100 100\n");
}

Test(hami_config, a_node_of_another_mode_has_no_profile_and_the_clusters_passes_over_it)
{
    expect_notice(NODES("{name: a, operatingmode: mig, migstrategy: mixed}"), "nodeconfig[0]",
                  "mode mig");
    const json_t *without = json_array_get(JX_AT(json_array_get(import.profiles, 0), "spec",
                                                 "nodeSelector", "matchExpressions"),
                                           0);
    auto_free char *text = jx_dump(without);
    cr_expect_str_eq(text, "{\"key\":\"kubernetes.io/hostname\",\"operator\":\"NotIn\",\"values\":"
                           "[\"a\"]}");
    expect_notice(NODES("{name: a, operatingmode: mps}"), "nodeconfig[0]", "sharing.mps");
    expect_refused("{nodeconfig: [{name: a, operatingmode: mig}]}", "nothing to import");
}

Test(hami_config, cards_that_a_filter_leaves_out_are_whole_and_that_is_said)
{
    expect_notice(NODES("{name: a, filterdevices: {uuid: [GPU-1, GPU-1], index: [2]}}"),
                  "nodeconfig[0]", "filterdevices");
    auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
    cr_assert_eq(gpuprofile_spec_decode(json_array_get(import.profiles, 1), &spec, NULL), 0);
    cr_assert_eq(spec.n_devices, 3);
    cr_expect_eq(spec.devices[0].selector.n_uuids, 1);
    cr_expect_str_eq(spec.devices[0].selector.uuids[0], "GPU-1");
    cr_expect_not(spec.devices[0].has_sharing);
    cr_expect_eq(spec.devices[1].selector.indices[0], 2);
    cr_expect(spec.devices[2].sharing.has_fractional);
    read_text(NODES("{name: a, filterdevices: {uuid: [], index: null}}"));
    cr_expect_eq(import.notices.n, 0);
}

Test(hami_config, keys_of_a_node_with_a_notice)
{
    expect_notice(NODES("{name: a, migstrategy: mixed}"), "nodeconfig[0].migstrategy",
                  "no partitions to name");
    expect_notice(NODES("{name: a, enablenumatopology: true}"), "nodeconfig[0].enablenumatopology",
                  "nvidia.com/numa-bind");
    expect_notice(NODES("{name: a, preConfiguredDeviceMemory: 10}"),
                  "nodeconfig[0].preConfiguredDeviceMemory", "driver");
    expect_notice(NODES("{name: a, novelty: 1}"), "nodeconfig[0].novelty", "is not known");
    expect_notice(NODES("{name: your-node-name}"), "nodeconfig[0]", "the chart's example");
    read_text(NODES("{name: a, enablegetpreferredallocation: true, MigStrategy: none}"));
    cr_expect_eq(import.notices.n, 0);
}

Test(hami_config, a_bad_entry_is_named)
{
    expect_refused("{kind: ConfigMap, data: {config.json: '[3]'}}",
                   "config.json: nodeconfig must be a list");
    expect_refused("{kind: ConfigMap, data: {config.json: '[]'}}",
                   "config.json: nodeconfig must be a list");
    expect_refused("{nodeconfig: {}}", "config.json: nodeconfig must be a list");
    expect_refused(NODES("{}"), "config.json: nodeconfig[0]: it must be an object with the node's "
                                "name");
    expect_refused(NODES("text"), "config.json: nodeconfig[0]: it must be an object");
    expect_refused(NODES("{name: 'a*'}"), "name \"a*\" is not a node name");
    expect_refused(NODES("{name: a}, {name: a}"), "config.json: nodeconfig[1]: node a has two");
    expect_refused(NODES("{name: a, operatingmode: fast}"), "operatingmode must be hami-core");
    expect_refused(NODES("{name: a, operatingmode: 1}"), "operatingmode must be hami-core");
    expect_refused(NODES("{name: a, devicesplitcount: x}"),
                   "config.json: nodeconfig[0]: devicesplitcount: it must be");
    expect_refused(NODES("{name: a, filterdevices: []}"), "filterdevices must be an object");
    expect_refused(NODES("{name: a, filterdevices: {uuid: GPU-1}}"), "filterdevices.uuid must be");
    expect_refused(NODES("{name: a, filterdevices: {uuid: ['-']}}"), "filterdevices.uuid[0]");
    expect_refused(NODES("{name: a, filterdevices: {index: [0, 256]}}"), "filterdevices.index[1]");
}

Test(hami_config, a_file_that_is_no_json_says_where)
{
    auto_err struct err e = {0};
    auto_json json_t *docs = loaded("{kind: ConfigMap, data: {config.json: \"{\\n{\"}}");
    struct hami_import none = {0};
    cr_expect_eq(hami_config_read(docs, &none, &e), -ERR_PROTOCOL);
    cr_expect(strstr(err_msg(&e), "config.json: "), "%s", err_msg(&e));
    cr_expect(strstr(err_msg(&e), "line 2"), "%s", err_msg(&e));
}

/* --- Bounds --- */

/* Entries that all differ from the section, those of a kind from the other's. */
static char *many(int n, const char *more)
{
    struct sb out = SB_INIT(4 << 20);
    sb_add(&out, "{nvidia: {}}\n---\nnodeconfig:\n");
    for (int i = 0; i < n; i++)
        sb_addf(&out, "- {name: n%d, devicesplitcount: 3%s}\n", i, more);
    return sb_take(&out);
}

Test(hami_config, a_profile_takes_as_many_nodes_as_a_selector_may_name)
{
    auto_free char *text = many(600, "");
    expect_told(text, "hami: 10 100 100\nhami-nodes-1: 3 100 100\nhami-nodes-2: 3 100 100\n"
                      "hami-nodes-3: 3 100 100\n");
    auto_free char *others = many(600, ", operatingmode: mps");
    expect_told(others, "hami: 10 100 100\n");
    cr_expect_eq(import.notices.n, HAMI_MAX_NOTICES);
    cr_expect_eq(import.notices.more, 600 - HAMI_MAX_NOTICES);
    cr_expect_eq(json_array_size(JX_AT(json_array_get(import.profiles, 0), "spec", "nodeSelector",
                                       "matchExpressions")),
                 3);
    auto_free char *beyond = many(4097, "");
    expect_refused(beyond, "a list of at most 4096 nodes");
}
