/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/container/entry.h"
#include "nodeagent/offer/plugin_config_file.h"

static struct plugin_config build(const char *file, const char *const *env,
                                  const struct plugin_setting *flags, size_t n_flags)
{
    struct plugin_config c = {0};
    auto_err struct err e = {0};
    const struct plugin_config_source src = {.file_text = file,
                                             .file_bytes = file ? strlen(file) : 0,
                                             .environment = env,
                                             .flags = flags,
                                             .n_flags = n_flags};
    cr_assert_eq(plugin_config_build(&src, &c, &e), 0, "%s", err_msg(&e));
    return c;
}

static struct plugin_config from_file(const char *file)
{
    return build(file, /* env= */ NULL, /* flags= */ NULL, 0);
}

static const char *notice_at(const struct plugin_config *c, const char *where)
{
    for (size_t i = 0; i < c->n_notices; i++)
        if (strcmp(c->notices[i].where, where) == 0)
            return c->notices[i].why;
    return NULL;
}

Test(plugin_config, nothing_said_means_the_plugins_defaults)
{
    auto_plugin_config struct plugin_config c = from_file(NULL);
    cr_expect_eq(c.mig_strategy, API_STRATEGY_NONE);
    cr_expect(c.fail_on_init_error && !c.pass_device_specs && !c.by_index && !c.packed);
    cr_expect_eq(c.ways, ENTRY_ENVVAR);
    cr_expect_str_eq(c.driver_root, "/");
    cr_expect_str_eq(c.dev_root, "/");
    cr_expect_str_eq(c.container_driver_root, "/driver-root");
    cr_expect_str_eq(c.cdi_annotation_prefix, "cdi.k8s.io/");
    cr_expect_str_eq(c.mps_root, "");
    cr_expect_str_eq(c.disable_health_checks, "");
    cr_expect_eq(c.sharing, PLUGIN_UNSHARED);
    cr_expect_eq(c.n_notices, 0);
}

#define WHOLE_FILE                                                                                 \
    "version: v1\n"                                                                                \
    "flags:\n"                                                                                     \
    "  migStrategy: mixed\n"                                                                       \
    "  failOnInitError: false\n"                                                                   \
    "  nvidiaDriverRoot: /run/nvidia/driver\n"                                                     \
    "  gdsEnabled: true\n"                                                                         \
    "  mpsRoot: /run/nvidia/mps\n"                                                                 \
    "  plugin:\n"                                                                                  \
    "    passDeviceSpecs: true\n"                                                                  \
    "    deviceListStrategy: [envvar, cdi-cri]\n"                                                  \
    "    deviceIDStrategy: index\n"                                                                \
    "    containerDriverRoot: /driver\n"                                                           \
    "    sharedDevicesAllocationPolicy: packed\n"                                                  \
    "  gfd: {noTimestamp: true, machineTypeFile: /host/product}\n"                                 \
    "sharing:\n"                                                                                   \
    "  timeSlicing:\n"                                                                             \
    "    renameByDefault: true\n"                                                                  \
    "    failRequestsGreaterThanOne: true\n"                                                       \
    "    resources:\n"                                                                             \
    "    - {name: nvidia.com/gpu, replicas: 10}\n"                                                 \
    "    - {name: mig-1g.10gb, replicas: 2, devices: all}\n"                                       \
    "imex: {channelIDs: [0], required: true}\n"

Test(plugin_config, a_file_is_understood)
{
    auto_plugin_config struct plugin_config c = from_file(WHOLE_FILE);
    cr_expect_eq(c.mig_strategy, API_STRATEGY_MIXED);
    cr_expect(!c.fail_on_init_error && c.pass_device_specs && c.by_index && c.packed && c.gds);
    cr_expect_eq(c.ways, ENTRY_ENVVAR | ENTRY_CDI_CRI);
    cr_expect_str_eq(c.dev_root, "/run/nvidia/driver", "the driver's, where nothing was said");
    cr_expect_str_eq(c.mps_root, "/run/nvidia/mps");
    cr_expect(c.no_timestamp && c.imex_channel_0 && c.imex_required);
    cr_expect_str_eq(c.machine_type_file, "/host/product");
    cr_expect_eq(c.sharing, PLUGIN_TIME_SLICING);
    cr_expect(c.fail_requests_greater_than_one);
    cr_assert_eq(c.n_shared, 2);
    cr_expect_str_eq(c.shared[0].name, "nvidia.com/gpu");
    cr_expect_str_eq(c.shared[0].offered_as, "nvidia.com/gpu.shared");
    cr_expect_eq(c.shared[0].replicas, 10);
    cr_expect_str_eq(c.shared[1].name, "nvidia.com/mig-1g.10gb");
    cr_expect(c.said.mig_strategy && c.said.ways && c.said.driver_root && !c.said.dev_root);
    cr_expect(c.said.container_driver_root && c.said.mps_root);
    cr_expect_eq(c.n_notices, 3, "%s", c.n_notices ? c.notices[0].where : "");
    cr_expect_not_null(notice_at(&c, ".flags.gfd.machineTypeFile"));
    cr_expect_not_null(notice_at(&c, ".imex.channelIDs"));
    cr_expect_not_null(notice_at(&c, ".imex.required"));
}

Test(plugin_config, what_is_ignored_fits_into_a_condition)
{
    auto_plugin_config struct plugin_config c = from_file("resources: {gpus: [{pattern: '*'}]}");
    plugin_config_ignore(&c, "migStrategy", "is ignored today");
    auto_free char *few = plugin_config_words(&c);
    cr_expect_str_eq(few, ".resources: is ignored as NVIDIA's plugin ignores it; resources have "
                          "their usual names; migStrategy: is ignored today");
    for (int i = 0; i < 120; i++)
        plugin_config_ignore(&c, ".a.place", "is ignored because this is about forty bytes");
    auto_free char *many = plugin_config_words(&c);
    cr_expect_lt(strlen(many), 4096);
    cr_expect_not_null(strstr(many, " more"));
}

Test(plugin_config, flags_beat_variables_and_these_the_file)
{
    static const char *const env[] = {"MIG_STRATEGY=single", "PASS_DEVICE_SPECS=1",
                                      "DEVICE_LIST_STRATEGY=volume-mounts,cdi-annotations",
                                      "NVIDIA_DRIVER_ROOT=", NULL};
    static const struct plugin_setting flags[] = {{"mig-strategy", "none"}};
    auto_plugin_config struct plugin_config c =
        build("flags: {migStrategy: mixed, nvidiaDriverRoot: /d, plugin: {passDeviceSpecs: false}}",
              env, flags, 1);
    cr_expect_eq(c.mig_strategy, API_STRATEGY_NONE);
    cr_expect(c.pass_device_specs);
    cr_expect_eq(c.ways, ENTRY_VOLUME_MOUNTS | ENTRY_CDI_ANNOTATIONS);
    cr_expect_str_eq(c.driver_root, "/d", "an empty variable is none");
}

Test(plugin_config, health_checks_are_named_by_variables)
{
    static const char *const env[] = {"DP_DISABLE_HEALTHCHECKS=48,79", "DP_ENABLE_HEALTHCHECKS=13",
                                      NULL};
    auto_plugin_config struct plugin_config c = build(NULL, env, NULL, 0);
    cr_expect_str_eq(c.disable_health_checks, "48,79");
    cr_expect_str_eq(c.enable_health_checks, "13");
}

Test(plugin_config, mps_refuses_requests_for_several_unless_told_otherwise)
{
    auto_plugin_config struct plugin_config c =
        from_file("sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}");
    cr_expect_eq(c.sharing, PLUGIN_MPS);
    cr_expect(c.fail_requests_greater_than_one);
    cr_expect_str_eq(c.shared[0].offered_as, "nvidia.com/gpu");
    auto_plugin_config struct plugin_config lax = from_file(
        "sharing: {mps: {failRequestsGreaterThanOne: false, resources: [{name: gpu, replicas: 4}]}}");
    cr_expect(!lax.fail_requests_greater_than_one);
}

/* --- what is ignored is said --- */

static void expect_notice(const char *file, const char *where)
{
    auto_plugin_config struct plugin_config c = from_file(file);
    cr_expect(notice_at(&c, where), "%s: no notice of %s", file, where);
}

Test(plugin_config, what_is_ignored_is_said)
{
    expect_notice("colour: red", ".colour");
    expect_notice("flags: {colour: red}", ".flags.colour");
    expect_notice("flags: {plugin: {colour: red}}", ".flags.plugin.colour");
    expect_notice("flags: {failOnInitError: true}", ".flags.failOnInitError");
    expect_notice("flags: {deviceDiscoveryStrategy: tegra}", ".flags.deviceDiscoveryStrategy");
    expect_notice("flags: {useNodeFeatureAPI: false}", ".flags.useNodeFeatureAPI");
    expect_notice("flags: {plugin: {nvidiaCTKPath: /opt/ctk}}", ".flags.plugin.nvidiaCTKPath");
    expect_notice("flags: {gfd: {sleepInterval: 10s}}", ".flags.gfd.sleepInterval");
    expect_notice("flags: {gfd: {sleepInterval: 1000000000}}", ".flags.gfd.sleepInterval");
    expect_notice("flags: {gfd: {outputFile: /tmp/x}}", ".flags.gfd.outputFile");
    expect_notice("resources: {gpus: [{pattern: '*', name: gpu}]}", ".resources");
    expect_notice("sharing: {colour: red}", ".sharing.colour");
}

#define SLICES(resource)                                                                           \
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, " resource "}]}}"

Test(plugin_config, names_and_devices_are_the_plugins_as_it_has_them)
{
    expect_notice(SLICES("rename: fast"), ".sharing.timeSlicing.resources[0].rename");
    expect_notice(SLICES("devices: [0, '1:0']"), ".sharing.timeSlicing.resources[0].devices");
    expect_notice(SLICES("devices: 2"), ".sharing.timeSlicing.resources[0].devices");
    expect_notice(SLICES("colour: red"), ".sharing.timeSlicing.resources[0].colour");
    expect_notice("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}",
                  ".sharing.timeSlicing.resources[0]");
    expect_notice("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]},"
                  " mps: {resources: [{name: gpu, replicas: 2}]}}",
                  ".sharing.timeSlicing");
}

Test(plugin_config, one_replica_is_not_sharing)
{
    auto_plugin_config struct plugin_config c =
        from_file("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}");
    cr_expect_eq(c.sharing, PLUGIN_UNSHARED);
    cr_expect_eq(c.n_shared, 0);
}

Test(plugin_config, what_agrees_with_what_is_done_needs_no_word)
{
    static const char *const env[] = {"GFD_ONESHOT=false", "GFD_SLEEP_INTERVAL=60s",
                                      "USE_NODE_FEATURE_API=true", "DEVICE_DISCOVERY_STRATEGY=auto",
                                      NULL};
    auto_plugin_config struct plugin_config c =
        build("{version: '', flags: null, resources: {}, sharing: {timeSlicing: {}}, imex: {}}",
              env, NULL, 0);
    cr_expect_eq(c.n_notices, 0, "%s", c.n_notices ? c.notices[0].where : "");
}

Test(plugin_config, notices_have_a_bound)
{
    char file[8192] = "";
    for (int i = 0; i < 200; i++)
        (void)snprintf(file + strlen(file), sizeof(file) - strlen(file), "k%d: 1\n", i);
    auto_plugin_config struct plugin_config c = from_file(file);
    cr_expect_eq(c.n_notices, PLUGIN_CONFIG_MAX_NOTICES);
}

/* --- what is wrong names its place --- */

static void expect_error(const struct plugin_config_source *src, const char *words)
{
    struct plugin_config c = {0};
    auto_err struct err e = {0};
    cr_assert_lt(plugin_config_build(src, &c, &e), 0, "%s", words);
    cr_expect(strstr(err_msg(&e), words), "\"%s\" lacks \"%s\"", err_msg(&e), words);
    cr_expect_eq(c.n_notices, 0, "what failed leaves its result alone");
}

static void expect_file_error(const char *file, const char *words)
{
    expect_error(&(struct plugin_config_source){.file_text = file, .file_bytes = strlen(file)},
                 words);
}

Test(plugin_config, what_is_wrong_names_its_place)
{
    static const struct {
        const char *file, *words;
    } rows[] = {
        {"version: v2", ".version: \"v2\" is not known"},
        {"version: 1", ".version"},
        {"[]", "must be an object"},
        {"a: 1\n---\na: 2\n", "one document"},
        {"flags: []", ".flags: must be an object"},
        {"flags: {migStrategy: both}", ".flags.migStrategy: must be one of none, single, mixed"},
        {"flags: {migStrategy: 3}", ".flags.migStrategy: must be a text"},
        {"flags: {failOnInitError: 'yes'}", ".flags.failOnInitError: must be true or false"},
        {"flags: {nvidiaDriverRoot: driver}",
         ".flags.nvidiaDriverRoot: must be an absolute path, not \"driver\""},
        {"flags: {plugin: {deviceListStrategy: pigeon}}",
         ".flags.plugin.deviceListStrategy: \"pigeon\" is none of"},
        {"flags: {plugin: {deviceListStrategy: []}}", "names no strategy"},
        {"flags: {plugin: {deviceListStrategy: [{}]}}", "deviceListStrategy[0]: must be a text"},
        {"flags: {plugin: {deviceIDStrategy: name}}", "must be one of uuid, index"},
        {"sharing: 4", ".sharing: must be an object"},
        {"sharing: {timeSlicing: 4}", ".sharing.timeSlicing"},
        {"sharing: {timeSlicing: {renameByDefault: true}}", ".sharing.timeSlicing.resources"},
        {"sharing: {timeSlicing: {resources: []}}", ".sharing.timeSlicing.resources"},
        {"sharing: {timeSlicing: {strategy: packed, resources: [{name: gpu, replicas: 2}]}}",
         ".sharing.timeSlicing.strategy"},
        {"sharing: {mps: {resources: [{name: gpu}]}}", ".sharing.mps.resources[0].replicas"},
        {"sharing: {mps: {resources: [{name: gpu, replicas: 0}]}}",
         ".sharing.mps.resources[0].replicas"},
        {"sharing: {mps: {resources: [{name: gpu, replicas: 5000}]}}",
         ".sharing.mps.resources[0].replicas"},
        {"sharing: {mps: {resources: [{replicas: 2}]}}", ".sharing.mps.resources[0].name"},
        {"sharing: {mps: {resources: [{name: G_PU, replicas: 2}]}}",
         ".sharing.mps.resources[0].name: \"G_PU\" is no name"},
        {"sharing: {mps: {resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: "
         "3}]}}",
         ".sharing.mps.resources[1].name: nvidia.com/gpu is listed twice"},
        {"sharing: {mps: {renameByDefault: true, resources: [{replicas: 2, name: "
         "a2345678901234567890123456789012345678901234567890}]}}",
         "longer than 63"},
        {"imex: {channelIDs: [1]}", ".imex.channelIDs: must be empty or 0"},
        {"imex: {required: 1}", ".imex.required: must be true or false"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_file_error(rows[i].file, rows[i].words);
}

Test(plugin_config, a_variable_or_flag_that_is_wrong_is_named)
{
    static const char *const env[] = {"PASS_DEVICE_SPECS=perhaps", NULL};
    expect_error(&(struct plugin_config_source){.environment = env},
                 "PASS_DEVICE_SPECS: must be true or false, not \"perhaps\"");
    static const char *const strategy[] = {"MIG_STRATEGY=both", NULL};
    expect_error(&(struct plugin_config_source){.environment = strategy}, "MIG_STRATEGY: must be");
    static const struct plugin_setting flags[] = {{"colour", "red"}};
    expect_error(&(struct plugin_config_source){.flags = flags, .n_flags = 1}, "--colour");
}

Test(plugin_config, a_file_without_bound_is_refused)
{
    auto_free char *huge = xmalloc(PLUGIN_CONFIG_MAX_BYTES + 2);
    memset(huge, '\n', PLUGIN_CONFIG_MAX_BYTES + 1);
    struct plugin_config c = {0};
    const struct plugin_config_source src = {.file_text = huge,
                                             .file_bytes = PLUGIN_CONFIG_MAX_BYTES + 1};
    cr_expect_eq(plugin_config_build(&src, &c, NULL), -ERR_TOO_LARGE);
}

/* --- which file --- */

static const char *const folder_names[] = {".", "..", "..data", "a100", "default", "h100"};
static const char *const one_name[] = {".", "..", "only"};

Test(plugin_config, the_label_picks_a_file_then_the_default_then_its_name)
{
    const char *name = NULL;
    cr_expect_eq(plugin_config_pick(folder_names, 6, "h100", "a100", &name, NULL), 0);
    cr_expect_str_eq(name, "h100");
    cr_expect_eq(plugin_config_pick(folder_names, 6, "", "a100", &name, NULL), 0);
    cr_expect_str_eq(name, "a100");
    cr_expect_eq(plugin_config_pick(folder_names, 6, NULL, NULL, &name, NULL), 0);
    cr_expect_str_eq(name, "default");
    cr_expect_eq(plugin_config_pick(one_name, 3, NULL, NULL, &name, NULL), 0);
    cr_expect_str_eq(name, "only");
    cr_expect_eq(plugin_config_pick(folder_names, 4, NULL, "", &name, NULL), 0);
    cr_expect_str_eq(name, "a100");
    cr_expect_eq(plugin_config_pick(folder_names, 3, NULL, NULL, &name, NULL), 0);
    cr_expect_null(name);
}

Test(plugin_config, a_label_that_names_no_file_is_an_error)
{
    const char *name = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(plugin_config_pick(folder_names, 6, "b200", NULL, &name, &e), -ERR_NOT_FOUND);
    cr_expect(strstr(err_msg(&e), "nvidia.com/device-plugin.config"), "%s", err_msg(&e));
    cr_expect_eq(plugin_config_pick(folder_names, 6, "..data", NULL, &name, NULL), -ERR_NOT_FOUND);
}

/* --- files --- */

static char root[64];

static void make_root(void)
{
    (void)snprintf(root, sizeof(root), "/tmp/plugin-config-XXXXXX");
    cr_assert(mkdtemp(root));
}

static void remove_root(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", root);
    cr_assert_eq(system(command), 0);
}

static void put(const char *name, const char *text)
{
    auto_free char *path = xasprintf("%s/%s", root, name);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

TestSuite(plugin_config_load, .init = make_root, .fini = remove_root);

static int load(const char *env, const char *file, const char *label, struct plugin_config *ret,
                struct err *e)
{
    const char *const list[] = {env, NULL};
    return plugin_config_load(&(struct plugin_config_source){.environment = list}, file, label, ret,
                              e);
}

Test(plugin_config_load, the_file_is_named_by_a_flag_or_a_variable)
{
    put("a", "flags: {migStrategy: single}");
    auto_free char *path = xasprintf("%s/a", root);
    auto_free char *env = xasprintf("CONFIG_FILE=%s", path);
    const struct plugin_setting flags[] = {{"config-file", path}, {"mig-strategy", "mixed"}};
    auto_plugin_config struct plugin_config by_env = {0};
    auto_plugin_config struct plugin_config by_flag = {0};
    cr_assert_eq(load(env, NULL, NULL, &by_env, NULL), 0);
    cr_expect_eq(by_env.mig_strategy, API_STRATEGY_SINGLE);
    cr_assert_eq(plugin_config_load(&(struct plugin_config_source){.flags = flags, .n_flags = 2},
                                    NULL, NULL, &by_flag, NULL),
                 0);
    cr_expect_eq(by_flag.mig_strategy, API_STRATEGY_MIXED);
}

Test(plugin_config_load, no_file_is_named_and_none_is_read)
{
    auto_plugin_config struct plugin_config c = {0};
    cr_assert_eq(load("MIG_STRATEGY=mixed", NULL, NULL, &c, NULL), 0);
    cr_expect_eq(c.mig_strategy, API_STRATEGY_MIXED);
}

Test(plugin_config_load, a_file_that_is_not_there_or_wrong_is_named)
{
    struct plugin_config c = {0};
    auto_err struct err e = {0};
    cr_expect_eq(load("X=1", "/nonexistent/file", NULL, &c, &e), -ERR_NOT_FOUND);
    err_clear(&e);
    put("bad", "version: v9");
    auto_free char *path = xasprintf("%s/bad", root);
    cr_expect_eq(load("X=1", path, NULL, &c, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "bad: .version"), "%s", err_msg(&e));
}

Test(plugin_config_load, the_label_picks_from_a_folder_and_its_lack_is_said)
{
    put("default", "flags: {migStrategy: single}");
    put("h100", "flags: {migStrategy: mixed}");
    auto_free char *env = xasprintf("CONFIG_FILE_SRCDIR=%s", root);
    auto_plugin_config struct plugin_config picked = {0};
    auto_plugin_config struct plugin_config plain = {0};
    cr_assert_eq(load(env, NULL, "h100", &picked, NULL), 0);
    cr_expect_eq(picked.mig_strategy, API_STRATEGY_MIXED);
    cr_expect_eq(picked.n_notices, 0);
    cr_assert_eq(load(env, NULL, NULL, &plain, NULL), 0);
    cr_expect_eq(plain.mig_strategy, API_STRATEGY_SINGLE);
    cr_expect(notice_at(&plain, LABEL_PLUGIN_CONFIG));
}
