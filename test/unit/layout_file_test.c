/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "mig_tables_support.h"
#include "nodeagent/commands/layout_file.h"

#define V        "apiVersion: gpu.cleave.dev/v1alpha1\n"
#define PROFILE  V "kind: GPUProfile\nmetadata: {name: p}\n"
#define CONFIG   V "kind: MIGConfig\nmetadata: {name: c}\n"
#define SPEC(e)  PROFILE "spec: {nodeSelector: {}, devices: [" e "]}\n"
#define CSPEC(e) CONFIG "spec: {devices: [" e "]}\n"

/* Reads text as the file that it would be. */
static int read_text(const char *text, struct layout_file *ret, struct err *e)
{
    char path[] = "/tmp/layout_file_test.XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    int rc = layout_file_read(path, ret, e);
    (void)unlink(path);
    return rc;
}

static void read_good(const char *text, struct layout_file *f)
{
    auto_err struct err e = {0};
    cr_assert_eq(read_text(text, f, &e), 0, "%s: %s", text, err_msg(&e));
}

Test(layout_file, documents_of_every_kind_may_stand_in_one_file)
{
    auto_layout_file struct layout_file f;
    read_good(
        SPEC("{mode: native}") "---\n" CSPEC(
            "{migEnabled: false}") "---\nversion: v1\nmig-configs:\n  Half_A: [{devices: all, mig-enabled: false}]\n"
                                   "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: m}\ndata:\n"
                                   "  config.yaml: '{version: v1, mig-configs: {x: [{devices: all, mig-enabled: "
                                   "false}]}}'\n",
        &f);
    cr_assert_eq(f.n_profiles, 1);
    cr_expect_str_eq(f.profiles[0].name, "p");
    cr_assert_eq(f.n_configs, 3);
    cr_expect_str_eq(f.configs[0].name, "c");
    cr_expect_str_eq(f.configs[1].name, "Half_A", "as it is written in the file");
    cr_expect_str_eq(f.configs[2].name, "x");
}

/* As `kubectl get gpuprofiles,migconfigs -o yaml` prints them. */
#define LIST(items)                                                                                \
    "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems: " items "\n"
#define HEAD(k, n)                                                                                 \
    "apiVersion: gpu.cleave.dev/v1alpha1, kind: " k ", metadata: {name: " n                        \
    ", uid: u, managedFields: []}, status: {observedGeneration: -1}, "

Test(layout_file, a_list_of_objects_is_read_as_if_they_stood_alone)
{
    auto_layout_file struct layout_file f;
    read_good(LIST("[{" HEAD("GPUProfile",
                             "p") "spec: {nodeSelector: {}, devices: [{mode: native}]}}, "
                                  "{" HEAD("MIGConfig",
                                           "c") "spec: {devices: [{migEnabled: false}]}}]"),
              &f);
    cr_assert_eq(f.n_profiles, 1);
    cr_expect_str_eq(f.profiles[0].name, "p");
    cr_assert_eq(f.n_configs, 1);
    cr_expect_str_eq(f.configs[0].name, "c");
}

Test(layout_file, the_item_that_is_wrong_is_counted)
{
    auto_err struct err e = {0};
    struct layout_file f;
    int rc = read_text(LIST("[{" HEAD("MIGConfig", "c") "spec: {devices: [{migEnabled: false}]}}, "
                                                        "{" HEAD("MIGConfig",
                                                                 "d") "spec: {devices: 1}}]"),
                       &f, &e);
    cr_expect_eq(rc, -(int)ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "document 1: .items[1]: MIGConfig d: .spec.devices"),
                       "%s", err_msg(&e));
}

Test(layout_file, the_samples_are_read)
{
    static const char *const samples[] = {
        "config/samples/all-1g.yaml",
        "config/samples/balanced.yaml",
        "config/samples/fractional.yaml",
        "config/samples/graphics.yaml",
        "config/samples/inference.yaml",
        "config/samples/metax.yaml",
        "config/samples/mps.yaml",
        "config/samples/per-model.yaml",
        "config/samples/priority-override.yaml",
        "config/samples/time-slicing.yaml",
        "config/samples/training.yaml",
        "config/samples/mig-parted/config.yaml",
    };
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        auto_err struct err e = {0};
        auto_layout_file struct layout_file f = {0};
        cr_expect_eq(layout_file_read(samples[i], &f, &e), 0, "%s", err_msg(&e));
        cr_expect_gt(f.n_profiles + f.n_configs, 0);
    }
}

Test(layout_file, what_an_api_server_would_refuse_is_refused)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "holds nothing"},
        {"# nothing\n", "holds nothing"},
        {"{", "line"},
        {LIST("[]"), ".items: holds nothing"},
        {LIST("{}"), ".items: holds nothing"},
        {LIST("[7]"), ".items[0]"},
        {LIST("[{kind: List, apiVersion: v1, metadata: {name: x}, items: []}]"),
         "List x is neither"},
        {V "kind: MIGConfigList\n", ".items: holds nothing"},
        {V "kind: Pod\nmetadata: {name: x}\n", "Pod x is neither"},
        {"apiVersion: v1\nkind: GPUProfile\nmetadata: {name: x}\n", "apiVersion must be"},
        {V "kind: GPUProfile\nspec: {}\n", ".metadata.name is missing"},
        {PROFILE, ".spec: required"},
        {PROFILE "spec: null\n", ".spec: required"},
        {PROFILE "spec: 1\n", ".spec"},
        {SPEC("{mode: native}") "more: 1\n", ".more: there is no such field"},
        {SPEC("{mode: native, modes: 1}"), ".spec.devices[0].modes: there is no such field"},
        /* The mistake that would otherwise mean "no partitions". */
        {SPEC("{mode: mig, mig: {profile: {1g.10gb: 7}}}"),
         ".spec.devices[0].mig.profile: there is no such field"},
        {SPEC("{mode: native, selector: {index: [0]}}"), ".selector.index: there is no such field"},
        {SPEC("{mode: native, sharing: {timeSlicing: {replicas: 2, x: 1}}}"), "timeSlicing.x"},
        {SPEC("{mode: native, sharing: {fractional: {shares: 2}}}"), "fractional.shares"},
        {SPEC("{mode: mig, mig: {profiles: {}}, sharing: {fractional: {}}}"),
         ".spec.devices[0].sharing.fractional: only a whole card"},
        {SPEC("{mode: mig}"), ".spec.devices[0].mig: mode mig needs it"},
        {SPEC("{mode: native, mig: {profiles: {}}}"), "goes with mode mig only"},
        {SPEC("{mode: mig, mig: {}}"), "exactly one of profiles and config"},
        {SPEC("{mode: mig, mig: {profiles: {}, config: x}}"), "exactly one of profiles and config"},
        {SPEC("{mode: mig, mig: {profiles: {1g.10gb: 0}}}"), "at least one count"},
        {SPEC("{mode: native, selector: {vendor: acme}}"), "\"acme\" is none of"},
        {SPEC("{mode: native, sgpu: {}}"), "goes with mode sgpu only"},
        {SPEC("{mode: vgpu, sgpu: {}}"), "goes with mode sgpu only"},
        {SPEC("{mode: vgpu, mig: {profiles: {}}}"), "goes with mode mig only"},
        {SPEC("{mode: vgpu, sharing: {timeSlicing: {replicas: 2}}}"),
         ".spec.devices[0].sharing: with mode vgpu"},
        {SPEC("{mode: sgpu, sgpu: {slices: [{alias: a, memoryMiB: 200}]}}"), "multiple of 128"},
        {CSPEC("{migEnabled: true}"), ".spec.devices[0].migDevices: required"},
        {CSPEC("{migEnabled: true, migDevices: null}"), ".spec.devices[0].migDevices: required"},
        {CSPEC("{migEnabled: true, migDevices: {1g.10gb: 0}}"), "at least one count"},
        {CSPEC("{migEnabled: false, migDevices: {1g.10gb: 1}}"), "goes with migEnabled true"},
        {CSPEC("{migEnabled: false, filters: []}"), ".spec.devices[0].filters"},
        {"version: v1\nmig-configs: {a: [{devices: all}]}\n", "mig-enabled"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_err struct err e = {0};
        struct layout_file f = {.n_configs = 77};
        cr_expect_eq(read_text(cases[i].text, &f, &e), -(int)ERR_INVALID, "%s", cases[i].text);
        cr_expect_not_null(strstr(err_msg(&e), cases[i].part), "%s: %s", cases[i].text,
                           err_msg(&e));
        cr_expect_eq(f.n_configs, 77, "outs are untouched");
    }
}

Test(layout_file, the_document_that_is_wrong_is_counted)
{
    auto_err struct err e = {0};
    struct layout_file f;
    cr_expect_lt(read_text(SPEC("{mode: native}") "---\n" SPEC("{mode: none}"), &f, &e), 0);
    cr_expect_not_null(strstr(err_msg(&e), "document 2: GPUProfile p: .spec.devices[0].mode"), "%s",
                       err_msg(&e));
}

Test(layout_file, a_file_that_is_not_there_is_named)
{
    auto_err struct err e = {0};
    struct layout_file f;
    cr_expect_lt(layout_file_read("/nonexistent/file", &f, &e), 0);
    cr_expect_not_null(strstr(err_msg(&e), "/nonexistent/file"), "%s", err_msg(&e));
}

/* --- What is meant --- */

static int resolve_text(const char *text, const char *selected, struct resolve_result *r,
                        struct err *e)
{
    const struct resolve_card card = {.uuid = "GPU-1",
                                      .vendor = "nvidia",
                                      .model = "H100",
                                      .pci_bus_id = "",
                                      .mig_capable = true,
                                      .healthy = true,
                                      .table = mig_model("H100-80")};
    auto_layout_file struct layout_file f = {0};
    if (text)
        read_good(text, &f);
    return layout_file_resolve(&f, selected, &card, 1, r, e);
}

static void expect_profile(const char *text, const char *selected, const char *profile)
{
    auto_err struct err e = {0};
    auto_resolve_result struct resolve_result r = {0};
    cr_assert_eq(resolve_text(text, selected, &r, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(r.spec.n_devices, 1, "%s", selected ? selected : text);
    const struct device_want *w = &r.spec.devices[0];
    cr_expect_str_eq(w->mig.n_profiles ? w->mig.profiles[0].profile : "native", profile);
}

#define BOTH                                                                                       \
    SPEC("{mode: mig, mig: {config: c}}")                                                          \
    "---\n" CSPEC("{migEnabled: true, migDevices: {4g.40gb: 1}}")
#define TWO                                                                                        \
    "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: false}]\n"                       \
    "  b: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"

Test(layout_file, profiles_are_meant_unless_a_name_is_selected)
{
    expect_profile(BOTH, NULL, "4g.40gb");
    expect_profile(BOTH, "all-7g.80gb", "7g.80gb");
    expect_profile(TWO, "b", "7g.80gb");
    expect_profile(TWO, "a", "native");
    expect_profile(CSPEC("{migEnabled: true, migDevices: {3g.40gb: 2}}"), NULL, "3g.40gb");
    expect_profile(NULL, "all-1g.10gb", "1g.10gb");
}

Test(layout_file, what_could_mean_several_things_or_nothing_is_an_error)
{
    auto_err struct err e = {0};
    struct resolve_result r = {0};
    cr_expect_eq(resolve_text(TWO, NULL, &r, &e), -(int)ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "choose one with -c (a, b"), "%s", err_msg(&e));
    cr_expect_eq(resolve_text(NULL, NULL, &r, &e), -(int)ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "-f"), "%s", err_msg(&e));
    cr_expect_eq(resolve_text(TWO, "c", &r, &e), -(int)ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), "named \"c\""), "%s", err_msg(&e));
}
