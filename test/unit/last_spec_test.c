/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "nodeagent/loop/last_spec.h"
#include "test/unit/folder_support.h"

static const char spec_text[] =
    "spec: {migStrategy: single, devices: [{uuid: GPU-1, mode: mig, mig: {profiles: [{profile: "
    "1g.10gb, count: 7}]}, sharing: {timeSlicing: {replicas: 4}}}, {uuid: GPU-2, mode: native}]}";

static void spec_of(const char *text, struct device_spec *ret)
{
    auto_json json_t *device = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &device, NULL), 0);
    cr_assert_eq(device_spec_decode(device, ret, NULL), 0);
}

static void put(const char *dir, const char *text, size_t len)
{
    auto_free char *folder = xasprintf("%s/spec", dir);
    auto_free char *path = xasprintf("%s/last.json", folder);
    cr_assert_eq(file_make_dirs(folder, 0700, NULL), 0);
    cr_assert_eq(file_replace(path, text, len, 0600, NULL), 0);
}

Test(last_spec, is_read_as_it_was_written)
{
    auto_free char *dir = folder_make();
    auto_device_spec struct device_spec written = {0};
    auto_device_spec struct device_spec found = {0};
    spec_of(spec_text, &written);
    cr_assert_eq(last_spec_write(dir, &written, NULL), 0);
    cr_assert_eq(last_spec_read(dir, &found, NULL), 0);
    auto_json json_t *a = device_spec_encode(&written);
    auto_json json_t *b = device_spec_encode(&found);
    cr_expect(json_equal(a, b));
    folder_remove(dir);
}

Test(last_spec, a_newer_one_replaces_it)
{
    auto_free char *dir = folder_make();
    auto_device_spec struct device_spec first = {0};
    auto_device_spec struct device_spec second = {0};
    auto_device_spec struct device_spec found = {0};
    spec_of(spec_text, &first);
    spec_of("spec: {devices: []}", &second);
    cr_assert_eq(last_spec_write(dir, &first, NULL), 0);
    cr_assert_eq(last_spec_write(dir, &second, NULL), 0);
    cr_assert_eq(last_spec_read(dir, &found, NULL), 0);
    cr_expect_eq(found.n_devices, 0);
    folder_remove(dir);
}

Test(last_spec, none_is_reported_as_none)
{
    auto_free char *dir = folder_make();
    struct device_spec found;
    cr_expect_eq(last_spec_read(dir, &found, NULL), -(int)ERR_NOT_FOUND);
    folder_remove(dir);
}

Test(last_spec, what_cannot_be_used_is_refused)
{
    static const struct {
        const char *text;
        enum err_kind kind;
    } cases[] = {
        {"{\"version\":2,\"spec\":{\"devices\":[]}}", ERR_CONFLICT},
        {"{\"version\":1,\"spec\":{\"devices\":7}}", ERR_INVALID},
        {"{\"version\":1,\"spec\":{\"dev", ERR_PROTOCOL},
        {"", ERR_PROTOCOL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *dir = folder_make();
        struct device_spec found;
        put(dir, cases[i].text, strlen(cases[i].text));
        cr_expect_eq(last_spec_read(dir, &found, NULL), -(int)cases[i].kind, "%s", cases[i].text);
        folder_remove(dir);
    }
}

Test(last_spec, a_file_without_bounds_is_not_read)
{
    enum { HUGE = 3 * 1024 * 1024 };
    auto_free char *dir = folder_make();
    auto_free char *text = xmalloc(HUGE);
    struct device_spec found;
    memset(text, ' ', HUGE);
    put(dir, text, HUGE);
    cr_expect_eq(last_spec_read(dir, &found, NULL), -(int)ERR_TOO_LARGE);
    folder_remove(dir);
}
