/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/yaml.h"

#include "api/migconfig.h"

static json_t *doc(const char *text)
{
    auto_err struct err e = {0};
    json_t *v = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &v, &e), 0, "%s", err_msg(&e));
    return v;
}

Test(migconfig, every_field_is_read_and_written_back)
{
    auto_json json_t *obj = doc("spec:\n"
                                "  aliases: [All_Halves]\n"
                                "  devices:\n"
                                "  - filter: ['0x233010DE', '0x20B010DE:0x145F10DE']\n"
                                "    indices: [0, 7]\n"
                                "    migEnabled: true\n"
                                "    migDevices: {3g.40gb: 2}\n"
                                "  - migEnabled: false\n"
                                "    migDevices: {}\n");
    auto_err struct err e = {0};
    auto_migconfig_spec struct migconfig_spec s;
    cr_assert_eq(migconfig_spec_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(s.n_aliases, 1);
    cr_expect_eq(s.n_devices, 2);
    cr_expect_eq(s.devices[0].n_filter, 2);
    cr_expect_eq(s.devices[0].indices[1], 7);
    cr_expect(s.devices[0].mig_enabled);
    cr_expect_str_eq(s.devices[0].mig_devices[0].key, "3g.40gb");
    cr_expect_eq(s.devices[0].mig_devices[0].num, 2);
    cr_expect_not(s.devices[1].mig_enabled);
    auto_json json_t *again = migconfig_spec_encode(&s);
    cr_expect(json_equal(again, json_object_get(obj, "spec")));
}

Test(migconfig, without_a_spec_it_is_invalid)
{
    auto_json json_t *obj = doc("metadata: {name: bare}");
    auto_err struct err e = {0};
    auto_migconfig_spec struct migconfig_spec s;
    cr_expect_eq(migconfig_spec_decode(obj, &s, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), ".spec: required");
}

Test(migconfig, status_survives_the_round_trip)
{
    auto_json json_t *obj = doc("status:\n"
                                "  observedGeneration: 3\n"
                                "  usedBy: {gpuProfiles: 2, nodes: 0}\n"
                                "  conditions:\n"
                                "  - type: Accepted\n"
                                "    status: 'True'\n"
                                "    observedGeneration: 3\n"
                                "    lastTransitionTime: '2026-01-02T03:04:05Z'\n"
                                "    reason: Accepted\n"
                                "    message: ''\n");
    auto_err struct err e = {0};
    auto_migconfig_status struct migconfig_status s;
    cr_assert_eq(migconfig_status_decode(obj, &s, &e), 0, "%s", err_msg(&e));
    cr_expect(s.has_used_by);
    cr_expect_eq(s.used_by.gpuprofiles, 2);
    auto_json json_t *again = migconfig_status_encode(&s);
    cr_expect(json_equal(again, json_object_get(obj, "status")));
}

Test(migconfig, what_is_wrong_is_named_by_its_path)
{
    static const struct {
        const char *text, *path;
    } cases[] = {
        {"spec: {devices: []}", ".spec.devices"},
        {"spec: {}", ".spec.devices"},
        {"spec: 7", ".spec"},
        {"spec: {devices: [{}]}", ".spec.devices[0].migEnabled"},
        {"spec: {devices: [{migEnabled: 'yes'}]}", ".spec.devices[0].migEnabled"},
        {"spec: {devices: [{migEnabled: true, migDevices: [1]}]}", ".spec.devices[0].migDevices"},
        {"spec: {devices: [{migEnabled: true, migDevices: {1g.5gb: x}}]}",
         ".spec.devices[0].migDevices"},
        /* An empty list would otherwise mean every card, the opposite of what it looks like. */
        {"spec: {devices: [{migEnabled: true, indices: []}]}", ".spec.devices[0].indices"},
        {"spec: {devices: [{migEnabled: true, filter: []}]}", ".spec.devices[0].filter"},
        {"spec: {devices: [{migEnabled: true, indices: [one]}]}", ".spec.devices[0].indices"},
        {"spec: {devices: null}", ".spec.devices"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_json json_t *obj = doc(cases[i].text);
        auto_err struct err e = {0};
        struct migconfig_spec s;
        cr_expect_eq(migconfig_spec_decode(obj, &s, &e), -(int)ERR_INVALID, "%s", cases[i].text);
        cr_expect_not_null(strstr(err_msg(&e), cases[i].path), "%s: %s", cases[i].text,
                           err_msg(&e));
        cr_expect_eq(s.n_devices, 0);
        cr_expect_null(s.devices);
    }
}

Test(migconfig, an_object_without_a_status_has_an_empty_one)
{
    auto_json json_t *obj = json_object();
    auto_migconfig_status struct migconfig_status st;
    cr_expect_eq(migconfig_status_decode(obj, &st, NULL), 0);
    cr_expect_eq(st.observed_generation, 0);
}
