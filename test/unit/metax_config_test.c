/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/gpuprofile.h"
#include "golden_support.h"
#include "interop/metax_config.h"

TestSuite(metax_config);

static json_t *loaded(const char *text)
{
    auto_err struct err e = {0};
    json_t *doc = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &doc, &e), 0, "%s: %s", text, err_msg(&e));
    return doc;
}

static json_t *imported(const char *text)
{
    auto_err struct err e = {0};
    auto_json json_t *doc = loaded(text);
    json_t *profiles = NULL;
    cr_assert(metax_config_is(doc), "%s", text);
    cr_assert_eq(metax_config_read(doc, &profiles, &e), 0, "%s: %s", text, err_msg(&e));
    return profiles;
}

/* "name priority selects mode" of each, in lines. Caller frees. */
static char *told(const json_t *profiles)
{
    struct sb text = SB_INIT(4096);
    for (size_t i = 0; i < json_array_size(profiles); i++) {
        auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
        auto_err struct err e = {0};
        const json_t *profile = json_array_get(profiles, i);
        cr_assert_eq(gpuprofile_spec_decode(profile, &spec, &e), 0, "%s", err_msg(&e));
        cr_assert_eq(spec.n_devices, 1);
        cr_expect_str_eq(spec.devices[0].selector.vendor, "metax");
        sb_addf(&text, "%s %d ", JX_STR_AT(profile, "metadata", "name"), (int)spec.priority);
        for (size_t k = 0; k < spec.node_selector.n_expressions; k++) {
            const struct label_requirement *r = &spec.node_selector.expressions[k];
            cr_expect_str_eq(r->key, "kubernetes.io/hostname");
            cr_expect_eq(r->op, API_IN);
            for (size_t v = 0; v < r->n_values; v++)
                sb_addf(&text, "%s ", r->values[v]);
        }
        sb_addf(&text, "%s", api_mode_names[spec.devices[0].mode]);
        if (spec.devices[0].sharing.time_slicing.replicas)
            sb_addf(&text, ", %u pods a card",
                    (unsigned)spec.devices[0].sharing.time_slicing.replicas);
        sb_add(&text, "\n");
    }
    return sb_take(&text);
}

static void expect_told(const char *text, const char *expected)
{
    auto_json json_t *profiles = imported(text);
    auto_free char *is = told(profiles);
    cr_expect_str_eq(is, expected, "%s: %s", text, is);
}

Test(metax_config, the_configmap_of_the_manual_becomes_these_profiles)
{
    auto_free char *text = NULL;
    size_t len;
    struct sb out = SB_INIT(1 << 16);
    cr_assert_eq(file_read("test/unit/data/metax-device-config.yaml", 1 << 16, &text, &len, NULL),
                 0);
    auto_json json_t *profiles = imported(text);
    for (size_t i = 0; i < json_array_size(profiles); i++) {
        auto_free char *one = yaml_dump(json_array_get(profiles, i));
        sb_addf(&out, "%s%s", i ? "---\n" : "", one);
    }
    golden_check("metax_config/profiles.yaml", sb_str(&out));
    sb_done(&out);
}

Test(metax_config, either_half_may_be_missing)
{
    expect_told("{cluster-config: 'mode: sgpu'}", "metax-device-config -20 sgpu\n");
    expect_told("{nodes-config: '[{nodeName: a, mode: sgpu}]'}",
                "metax-device-config-sgpu -10 a sgpu\n");
    expect_told("{version: v1, cluster-config: 'mode: native', nodes-config: ''}",
                "metax-device-config -20 native\n");
    expect_told("{version: v1, cluster-config: '# none', nodes-config: '- {nodeName: a, mode: "
                "native}'}",
                "metax-device-config-native -10 a native\n");
    expect_told("{cluster-config: 'mode: native', nodes-config: '[]'}",
                "metax-device-config -20 native\n");
}

Test(metax_config, shared_cards_are_native_ones_offered_to_sixteen_pods)
{
    expect_told("{cluster-config: 'mode: shared', nodes-config: '[{nodeName: a, mode: native}, "
                "{nodeName: b, mode: shared}]'}",
                "metax-device-config -20 native, 16 pods a card\n"
                "metax-device-config-native -10 a native\n"
                "metax-device-config-shared -10 b native, 16 pods a card\n");
}

Test(metax_config, data_that_is_no_text_is_taken_as_it_is)
{
    expect_told("{version: v1, cluster-config: {mode: native}, nodes-config: [{nodeName: a, mode: "
                "sgpu}, {nodeName: b, mode: native}, {nodeName: c, mode: sgpu}]}",
                "metax-device-config -20 native\n"
                "metax-device-config-native -10 b native\n"
                "metax-device-config-sgpu -10 a c sgpu\n");
}

Test(metax_config, other_documents_are_none)
{
    static const char *const texts[] = {
        "{version: v1, mig-configs: {}}",
        "{kind: ConfigMap, data: {config.yaml: 'x'}}",
        "{kind: ConfigMap, cluster-config: x}",
        "{kind: ConfigMap}",
        "[cluster-config]",
        "cluster-config",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        auto_json json_t *doc = loaded(texts[i]);
        cr_expect_not(metax_config_is(doc), "%s", texts[i]);
    }
}

#define NODES(list) "{nodes-config: \"" list "\"}"
#define A64         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

Test(metax_config, whatever_is_not_meant_is_refused_with_its_place)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"{cluster-config: 'mode: whole'}",
         "cluster-config: mode \"whole\" is none of native, sgpu, shared, vgpu"},
        {NODES("[{nodeName: a, mode: native}, {nodeName: b, mode: share}]"),
         "nodes-config[1]: node b: mode \"share\" is none of native, sgpu, shared, vgpu"},
        {"{cluster-config: 'mode: [native]'}",
         "cluster-config: mode must be native, sgpu, shared or vgpu"},
        {"{cluster-config: 'native'}", "cluster-config: it must be an object with mode"},
        {"{cluster-config: 'mode: native', extra: x}",
         "metax-device-config: unknown field \"extra\""},
        {"{cluster-config: 'model: native'}", "cluster-config: unknown field \"model\""},
        {"{version: v2, cluster-config: 'mode: native'}",
         "metax-device-config: version must be \"v1\""},
        {"{version: 1, cluster-config: 'mode: native'}",
         "metax-device-config: version must be \"v1\""},
        {"{cluster-config: \"mode: native\\n---\\nmode: sgpu\"}",
         "cluster-config: it holds more than one document"},
        {"{cluster-config: '', nodes-config: ''}", "metax-device-config: it names no mode"},
        {NODES("mode: sgpu"), "nodes-config: must be a list of at most 4096 nodes"},
        {NODES("[a]"), "nodes-config[0]: it must be an object with nodeName and mode"},
        {NODES("[{nodeName: a}]"),
         "nodes-config[0]: node a: mode must be native, sgpu, shared or vgpu"},
        {NODES("[{mode: sgpu}]"), "nodes-config[0]: nodeName must be a string"},
        {NODES("[{nodeName: 7, mode: sgpu}]"), "nodes-config[0]: nodeName must be a string"},
        {NODES("[{nodeName: a, mode: sgpu, cards: 1}]"),
         "nodes-config[0]: unknown field \"cards\""},
        {NODES("[{nodeName: a, mode: sgpu}, {nodeName: b, mode: sgpu}, {nodeName: a, mode: "
               "native}]"),
         "nodes-config[2]: node a has two entries; keep one"},
        {NODES("[{nodeName: A, mode: sgpu}]"),
         "nodes-config[0]: nodeName \"A\" is not a node name: use lower-case "
         "letters, digits, and - or . between them"},
        {NODES("[{nodeName: a-, mode: sgpu}]"),
         "nodes-config[0]: nodeName \"a-\" is not a node name: use lower-case "
         "letters, digits, and - or . between them"},
        {NODES("[{nodeName: 'a b', mode: sgpu}]"),
         "nodes-config[0]: nodeName \"a b\" is not a node name: use lower-case "
         "letters, digits, and - or . between them"},
        {NODES("[{nodeName: '', mode: sgpu}]"),
         "nodes-config[0]: nodeName must have 1 to 63 characters, as the label "
         "kubernetes.io/hostname"},
        {NODES("[{nodeName: " A64 ", mode: sgpu}]"),
         "nodes-config[0]: nodeName must have 1 to 63 characters, as the label "
         "kubernetes.io/hostname"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_err struct err e = {0};
        auto_json json_t *doc = loaded(cases[i].text);
        json_t *profiles = NULL;
        cr_expect_eq(metax_config_read(doc, &profiles, &e), -(int)ERR_INVALID, "%s", cases[i].text);
        cr_expect_str_eq(err_msg(&e), cases[i].said, "%s: %s", cases[i].text, err_msg(&e));
        cr_expect_null(profiles);
    }
}

Test(metax_config, what_is_no_yaml_is_refused_with_its_place)
{
    auto_err struct err e = {0};
    auto_json json_t *doc = loaded("{nodes-config: '[{nodeName: a'}");
    json_t *profiles = NULL;
    cr_expect_eq(metax_config_read(doc, &profiles, &e), -(int)ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "nodes-config: ") == err_msg(&e), "%s", err_msg(&e));
}

/* n nodes of one mode. New reference. */
static json_t *many(size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        auto_free char *name = xasprintf("node-%zu", i);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s}", "nodeName", name, "mode", "sgpu"));
    }
    return json_pack("{s:o}", "nodes-config", list);
}

Test(metax_config, more_nodes_than_a_selector_takes_are_told_in_several_profiles)
{
    static const char *const names[] = {"metax-device-config-sgpu", "metax-device-config-sgpu-2",
                                        "metax-device-config-sgpu-3"};
    static const size_t sizes[] = {256, 256, 1};
    auto_json json_t *doc = many(513);
    auto_json json_t *profiles = NULL;
    cr_assert_eq(metax_config_read(doc, &profiles, NULL), 0);
    cr_assert_eq(json_array_size(profiles), ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
        const json_t *profile = json_array_get(profiles, i);
        cr_expect_str_eq(JX_STR_AT(profile, "metadata", "name"), names[i]);
        cr_assert_eq(gpuprofile_spec_decode(profile, &spec, NULL), 0);
        cr_expect_eq(spec.node_selector.expressions[0].n_values, sizes[i]);
    }
}

Test(metax_config, a_strange_number_of_nodes_is_refused)
{
    auto_err struct err e = {0};
    auto_json json_t *doc = many(4097);
    json_t *profiles = NULL;
    cr_expect_eq(metax_config_read(doc, &profiles, &e), -(int)ERR_INVALID);
}
