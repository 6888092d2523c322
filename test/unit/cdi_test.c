/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/cdi/cdi.h"
#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/container/driver_mounts.h"
#include "nodeagent/vendor/container_vendors.h"
#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

TestSuite(cdi, .init = folder_enter, .fini = folder_leave);

#define SPEC "cdi/gpu.cleave.dev-nvidia.json"

static char card_name[] = "GPU-0", slice_name[] = "GPU-1-1g.10gb.me-0", bad_name[] = "GPU/2";
static const struct entry_device card = {.vendor = "nvidia", .cdi_name = card_name, .minor = 2};
static const struct entry_device slice =
    {.vendor = "nvidia", .cdi_name = slice_name, .minor = 1, .mig = true, .gi_id = 7, .ci_id = 0};
static const struct entry_device unknown =
    {.vendor = "nvidia", .cdi_name = slice_name, .minor = 1, .mig = true, .gi_id = 9, .ci_id = 0};
static const struct entry_device misnamed = {.vendor = "nvidia", .cdi_name = bad_name, .minor = 2};

static struct nvidia_nodes_cap caps[] = {{1, 7, -1, 201},
                                         {1, 7, 0, 202},
                                         {1, 8, -1, 203},
                                         {1, 8, 0, 204}};
static char no_root[] = "", driver_root[] = "/run/nvidia/driver";
static struct nvidia_nodes own = {.ctl = true,
                                  .uvm = true,
                                  .caps = caps,
                                  .n_caps = 4,
                                  .host_dev_root = no_root};
static const struct device_nodes nodes = {.own = {{&container_nvidia, &own}}};

static char lib[] = "/usr/lib64/libcuda.so.570.1", lib_host[] = "/host/libcuda.so.570.1";
static char link_path[] = "/usr/lib64/libcuda.so.1", target[] = "libcuda.so.570.1";
static char socket_path[] = "/var/run/nvidia-persistenced/socket", lib_folder[] = "/usr/lib64";
static struct driver_file files_list[] = {{DRIVER_LIBRARY, lib_host, lib},
                                          {DRIVER_SOCKET, socket_path, socket_path}};
static struct driver_link links[] = {{link_path, target, lib_host}};
static char *folders[] = {lib_folder};
static const struct driver_files files = {files_list, 2, links, 1, folders, 1};

static const struct cdi_options here = {.folder = "cdi", .second_folder = ""};

static char *read_spec(void)
{
    char *text = NULL;
    cr_assert_eq(file_read(SPEC, 1 << 20, &text, /* ret_len= */ NULL, NULL), 0);
    return text;
}

Test(cdi, spec_is_common_edits_and_devices)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card, &slice};
    cr_assert_eq(cdi_set_common(c, &nodes, &files, NULL), 0);
    cr_assert_eq(cdi_write(c, &nodes, devices, 2, NULL), 0);
    auto_free char *text = read_spec();
    cr_expect_str_eq(text,
                     "{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu.cleave.dev/nvidia\",\n"
                     "\"containerEdits\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=void\"],"
                     "\"deviceNodes\":[{\"path\":\"/dev/nvidiactl\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/nvidia-uvm\",\"permissions\":\"rw\"}],"
                     "\"mounts\":[{\"hostPath\":\"/host/libcuda.so.570.1\","
                     "\"containerPath\":\"/usr/lib64/libcuda.so.570.1\","
                     "\"options\":[\"ro\",\"nosuid\",\"nodev\",\"rbind\",\"rprivate\"]},"
                     "{\"hostPath\":\"/var/run/nvidia-persistenced/socket\","
                     "\"containerPath\":\"/var/run/nvidia-persistenced/socket\","
                     "\"options\":[\"ro\",\"nosuid\",\"nodev\",\"rbind\",\"rprivate\",\"noexec\"]},"
                     "{\"hostPath\":\"/host/libcuda.so.570.1\","
                     "\"containerPath\":\"/usr/lib64/libcuda.so.1\","
                     "\"options\":[\"ro\",\"nosuid\",\"nodev\",\"rbind\",\"rprivate\"]}]},\n"
                     "\"devices\":[\n"
                     "{\"name\":\"GPU-0\",\"containerEdits\":{\"deviceNodes\":["
                     "{\"path\":\"/dev/nvidia2\",\"permissions\":\"rw\"}]}},\n"
                     "{\"name\":\"GPU-1-1g.10gb.me-0\",\"containerEdits\":{\"deviceNodes\":["
                     "{\"path\":\"/dev/nvidia1\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/nvidia-caps/nvidia-cap201\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/nvidia-caps/nvidia-cap202\",\"permissions\":\"rw\"}]}}]}\n");
    auto_json json_t *parsed = json_loads(text, 0, NULL);
    cr_expect_not_null(parsed);
}

Test(cdi, nodes_below_a_dev_root_say_where_they_are)
{
    struct nvidia_nodes moved = own;
    moved.host_dev_root = driver_root;
    const struct device_nodes below = {.own = {{&container_nvidia, &moved}}};
    auto_free char *text = NULL;
    cr_assert_eq(cdi_device_render(&below, &card, /* together= */ NULL, 0, &text, NULL), 0);
    cr_expect_str_eq(text, "{\"name\":\"GPU-0\",\"containerEdits\":{\"deviceNodes\":[{\"path\":"
                           "\"/dev/nvidia2\",\"hostPath\":\"/run/nvidia/driver/dev/nvidia2\","
                           "\"permissions\":\"rw\"}]}}");
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

Test(cdi, without_hooks_each_name_is_a_mount_in_both_folders)
{
    const struct cdi_common_options o = {.second_folder = DRIVER_SECOND_FOLDER};
    auto_free char *text = cdi_common_render(container_vendor_find("nvidia"), &o, &nodes, &files);
    cr_expect_eq(count(text, "\"hostPath\":\"/host/libcuda.so.570.1\""), 4);
    cr_expect_eq(count(text, "\"/usr/local/nvidia/lib64/libcuda.so.1\""), 1);
    cr_expect_eq(count(text, "\"/usr/local/nvidia/lib64/libcuda.so.570.1\""), 1);
    cr_expect_eq(count(text, "hooks"), 0);
    cr_expect_eq(count(text, "LD_LIBRARY_PATH"), 0);
}

/* --- Substitutes --- */

static char ml[] = "/usr/lib64/libnvidia-ml.so.570.1", ml_host[] = "/host/libnvidia-ml.so.570.1";
static char odd_path[] = "/usr/lib64/libodd.so", cuda_target[] = "libcuda.so.1";
static char debugger[] = "/usr/lib64/libcudadebugger.so.570.1";
static char debugger_host[] = "/host/libcudadebugger.so.570.1";
static struct driver_file two_libraries[] = {{DRIVER_LIBRARY, lib_host, lib},
                                             {DRIVER_LIBRARY, debugger_host, debugger},
                                             {DRIVER_LIBRARY, ml_host, ml},
                                             {DRIVER_SOCKET, socket_path, socket_path}};
static struct driver_link two_links[] = {{link_path, target, lib_host},
                                         {odd_path, cuda_target, lib_host}};
static const struct driver_files driver = {two_libraries, 4, two_links, 2, folders, 1};
static const struct driver_substitute limiter[] = {{"libcuda.so", "/var/lib/ours/cuda.so",
                                                    "/usr/lib/real/libcuda.so.1"},
                                                   {"libnvidia-ml.so", "/var/lib/ours/ml.so",
                                                    "/usr/lib/real/libnvidia-ml.so.1"}};

static char *render_mounts(const struct driver_files *f, bool names, const char *second)
{
    const struct driver_substitutes both = {limiter, 2};
    auto_driver_mounts struct driver_mounts all;
    struct sb out = SB_INIT(65536);
    driver_mounts_list(f, names, second, &both, &all);
    for (size_t i = 0; i < all.n; i++)
        sb_addf(&out, "%s from %s\n", all.items[i].container_path, all.items[i].host_path);
    return sb_take(&out);
}

Test(cdi, a_substitute_has_all_names_of_the_drivers_library_and_that_one_another_place)
{
    auto_free char *text = render_mounts(&driver, /* names= */ true, "/second");
    cr_expect_str_eq(text, "/usr/lib64/libcuda.so.570.1 from /var/lib/ours/cuda.so\n"
                           "/usr/lib64/libcudadebugger.so.570.1 from "
                           "/host/libcudadebugger.so.570.1\n"
                           "/usr/lib64/libnvidia-ml.so.570.1 from /var/lib/ours/ml.so\n"
                           "/var/run/nvidia-persistenced/socket from "
                           "/var/run/nvidia-persistenced/socket\n"
                           "/usr/lib/real/libcuda.so.1 from /host/libcuda.so.570.1\n"
                           "/usr/lib/real/libnvidia-ml.so.1 from /host/libnvidia-ml.so.570.1\n"
                           "/usr/lib64/libcuda.so.1 from /var/lib/ours/cuda.so\n"
                           "/usr/lib64/libodd.so from /var/lib/ours/cuda.so\n"
                           "/second/libcuda.so.570.1 from /var/lib/ours/cuda.so\n"
                           "/second/libcudadebugger.so.570.1 from "
                           "/host/libcudadebugger.so.570.1\n"
                           "/second/libnvidia-ml.so.570.1 from /var/lib/ours/ml.so\n"
                           "/second/libcuda.so.1 from /var/lib/ours/cuda.so\n"
                           "/second/libodd.so from /var/lib/ours/cuda.so\n");
}

Test(cdi, where_a_hook_makes_the_names_a_substitute_has_its_own_alone)
{
    auto_free char *text = render_mounts(&files, /* names= */ false, "/second");
    cr_expect_str_eq(text, "/usr/lib64/libcuda.so.570.1 from /var/lib/ours/cuda.so\n"
                           "/var/run/nvidia-persistenced/socket from "
                           "/var/run/nvidia-persistenced/socket\n"
                           "/usr/lib/real/libcuda.so.1 from /host/libcuda.so.570.1\n");
}

Test(cdi, a_container_can_be_limited_where_all_the_limiter_stands_for_is_there)
{
    cr_expect(cdi_can_limit("nvidia", &driver));
    cr_expect_not(cdi_can_limit("nvidia", &files), "there is no libnvidia-ml");
    cr_expect_not(cdi_can_limit("nvidia", NULL));
    cr_expect_not(cdi_can_limit("metax", &driver));
}

/* The image's own libcuda would take its place. */
Test(cdi, a_hook_looks_for_no_other_libcuda_beside_the_limiter)
{
    const struct cdi_common_options o = {.hook = "/usr/bin/nvidia-ctk",
                                         .newer_hooks = true,
                                         .second_folder = "",
                                         .limiter = "/var/lib/ours"};
    auto_free char *text = cdi_common_render(container_vendor_find("nvidia"), &o, &nodes, &driver);
    cr_expect_eq(count(text, "{\"hostPath\":\"/var/lib/ours/libcleave-cuda.so\","
                             "\"containerPath\":\"/usr/lib64/libcuda.so.570.1\""),
                 1);
    cr_expect_eq(count(text, "\"containerPath\":\"/usr/lib/cleave/real/libnvidia-ml.so.1\""), 1);
    cr_expect_eq(count(text, "enable-cuda-compat"), 0);
    cr_expect_eq(count(text, "disable-device-node-modification"), 1);
}

Test(cdi, a_container_may_have_mounts_besides_the_drivers)
{
    static char at[] = "/run/ours", on_host[] = "/run/all/3", file[] = "/run/ours/usage";
    static char file_on_host[] = "/run/all/3/usage";
    const struct entry_mount mounts[] = {{at, on_host, .read_only = true},
                                         {file, file_on_host, .read_only = false}};
    const struct cdi_common_options o = {.second_folder = "", .mounts = mounts, .n_mounts = 2};
    auto_free char *text = cdi_common_render(container_vendor_find("nvidia"), &o, &nodes,
                                             /* files= */ NULL);
    cr_expect_eq(count(text, "\"mounts\":["
                             "{\"hostPath\":\"/run/all/3\",\"containerPath\":\"/run/ours\","
                             "\"options\":[\"ro\",\"nosuid\",\"nodev\",\"rbind\",\"rprivate\","
                             "\"noexec\"]},"
                             "{\"hostPath\":\"/run/all/3/usage\","
                             "\"containerPath\":\"/run/ours/usage\","
                             "\"options\":[\"rw\",\"nosuid\",\"nodev\",\"rbind\",\"rprivate\","
                             "\"noexec\"]}]"),
                 1);
}

/* --- Hooks --- */

Test(cdi, library_path_is_said_where_asked)
{
    const struct cdi_common_options o = {.second_folder = "/lib/gpu", .set_library_path = true};
    auto_free char *text = cdi_common_render(container_vendor_find("nvidia"), &o, &nodes, &files);
    cr_expect_eq(count(text, "\"LD_LIBRARY_PATH=/lib/gpu\""), 1);
}

Test(cdi, hooks_make_links_and_cache_instead_of_mounts)
{
    const struct cdi_common_options o = {.hook = "/usr/bin/nvidia-cdi-hook", .second_folder = "/x"};
    auto_free char *text = cdi_common_render(container_vendor_find("nvidia"), &o, &nodes, &files);
    cr_expect_eq(count(text, "\"hostPath\":\"/host/libcuda.so.570.1\""), 1);
    cr_expect_eq(count(text, "{\"hookName\":\"createContainer\",\"path\":\"/usr/bin/"
                             "nvidia-cdi-hook\",\"args\":[\"nvidia-cdi-hook\",\"create-symlinks\","
                             "\"--link\",\"libcuda.so.570.1::/usr/lib64/libcuda.so.1\"]}"),
                 1);
    cr_expect_eq(count(text, "\"nvidia-cdi-hook\",\"update-ldcache\",\"--folder\",\"/usr/lib64\""),
                 1);
    cr_expect_eq(count(text, "disable-device-node-modification"), 0);
}

Test(cdi, hooks_of_the_toolkits_other_program_are_a_subcommand)
{
    const struct cdi_common_options o = {.hook = "/usr/bin/nvidia-ctk",
                                         .newer_hooks = true,
                                         .second_folder = ""};
    auto_free char *text = cdi_common_render(container_vendor_find("nvidia"), &o, &nodes, &files);
    cr_expect_eq(count(text, "[\"nvidia-ctk\",\"hook\",\"create-symlinks\""), 1);
    cr_expect_eq(count(text, "[\"nvidia-ctk\",\"hook\",\"disable-device-node-modification\"]"), 1);
    cr_expect_eq(count(text, "[\"nvidia-ctk\",\"hook\",\"enable-cuda-compat\"]"), 1);
}

Test(cdi, replicas_go_in_once)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card, &card, &slice, &card};
    cr_assert_eq(cdi_write(c, &nodes, devices, 4, NULL), 0);
    auto_free char *text = read_spec();
    cr_expect_eq(count(text, "\"name\":"), 2);
}

Test(cdi, device_that_cannot_be_told_is_left_out_and_told)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&unknown, &misnamed, &card};
    auto_err struct err e = {0};
    cr_expect_eq(cdi_write(c, &nodes, devices, 3, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), slice_name));
    auto_free char *text = read_spec();
    cr_expect_eq(count(text, "\"name\":"), 1);
    cr_expect_eq(count(text, "\"GPU-0\""), 1);
}

static ino_t inode(void)
{
    struct stat st;
    return stat(SPEC, &st) == 0 ? st.st_ino : 0;
}

Test(cdi, nothing_is_written_when_nothing_changed)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card};
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    ino_t before = inode();
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    cr_expect_eq(inode(), before);
}

Test(cdi, file_that_someone_removed_or_changed_is_written_again)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card};
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    auto_free char *whole = read_spec();
    cr_assert_eq(unlink(SPEC), 0);
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    cr_assert_eq(file_write_atomic(SPEC, "{}", 2, 0600, NULL), 0);
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    auto_free char *again = read_spec();
    cr_expect_str_eq(again, whole);
}

Test(cdi, spec_without_devices_is_no_file)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card};
    cr_assert_eq(cdi_write(c, &nodes, devices, 0, NULL), 0);
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    cr_assert_eq(cdi_write(c, &nodes, devices, 0, NULL), 0);
    cr_expect_eq(inode(), 0);
}

/* As a full disk does, a limit of the process cuts the write short. */
Test(cdi, full_disk_keeps_the_old_spec_and_is_tried_again)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card, &slice};
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    auto_free char *old = read_spec();
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit tight = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
    cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    auto_err struct err e = {0};
    int rc = cdi_write(c, &nodes, devices, 2, &e);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(rc, -ERR_SYSTEM);
    cr_expect_not_null(strstr(err_msg(&e), "CDI spec: write cdi/"));
    auto_free char *still = read_spec();
    cr_expect_str_eq(still, old);
    cr_assert_eq(cdi_write(c, &nodes, devices, 2, NULL), 0);
    auto_free char *fresh = read_spec();
    cr_expect_eq(count(fresh, "\"name\":"), 2);
}

/* A partition that was made again has its name and other files; the old ones may be another's. */
Test(cdi, what_an_old_file_says_of_another_device_of_that_name_is_not_had)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    struct entry_device again = slice;
    const struct entry_device *before[] = {&card, &slice};
    const struct entry_device *now[] = {&card, &again};
    again.gi_id = 8;
    cr_assert_eq(cdi_write(c, &nodes, before, 2, NULL), 0);
    cr_assert(cdi_has(c, &card) && cdi_has(c, &slice));
    cr_assert_eq(unlink(SPEC), 0);
    cr_assert_eq(mkdir(SPEC, 0755), 0); /* in its place: nothing can be written */
    cr_expect_eq(cdi_write(c, &nodes, now, 2, NULL), -ERR_SYSTEM);
    cr_expect(cdi_has(c, &card));
    cr_expect_not(cdi_has(c, &again));
    cr_assert_eq(rmdir(SPEC), 0);
    cr_expect_eq(cdi_write(c, &nodes, now, 2, NULL), 0);
    cr_expect(cdi_has(c, &again));
}

Test(cdi, folder_that_cannot_be_made_is_told)
{
    cr_assert_eq(file_write_atomic("cdi", "", 0, 0644, NULL), 0);
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card};
    auto_err struct err e = {0};
    cr_expect_eq(cdi_write(c, &nodes, devices, 1, &e), -ERR_SYSTEM);
    cr_expect_not_null(strstr(err_msg(&e), "create folder cdi"));
}

Test(cdi, drafts_of_a_crash_are_swept)
{
    cr_assert_eq(mkdir("cdi", 0755), 0);
    cr_assert_eq(file_write_atomic(SPEC ".0123456789abcdef.tmp", "", 0, 0644, NULL), 0);
    auto_cdi struct cdi *c = cdi_new(&here);
    cr_expect_str_eq(cdi_path(c, "nvidia"), SPEC);
    cr_expect_neq(access(SPEC ".0123456789abcdef.tmp", F_OK), 0);
}

static const struct {
    const char *name;
    bool legal;
} names[] = {{"GPU-0", true}, {"a", true},    {"1g.10gb:2_x", true}, {"", false},
             {"-a", false},   {"a-", false},  {"a/b", false},        {"a b", false},
             {"a=b", false},  {"a+b", false}, {".a", false}};

Test(cdi, names_are_letters_digits_and_a_few_marks)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_expect_eq(cdi_is_name(names[i].name), names[i].legal, "%s", names[i].name);
}

/* The machine's own programs stand for the host's. */
Test(cdi, hook_program_is_roots_and_below_folders_of_roots)
{
    auto_free char *path = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(cdi_check_hook("/", "/usr/bin/env", &path, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(path, "/usr/bin/env");
}

Test(cdi, hook_program_that_others_may_change_is_not_run)
{
    auto_free char *path = NULL;
    auto_free char *program = xasprintf("%s/hook", folder_path());
    auto_err struct err e = {0};
    cr_assert_eq(file_write_atomic(program, "", 0, 0755, NULL), 0);
    cr_expect_eq(cdi_check_hook("/", program, &path, &e), -ERR_FORBIDDEN);
    cr_expect_not_null(strstr(err_msg(&e), "/tmp is not used"));
    cr_expect_eq(cdi_check_hook("/", "/nowhere/hook", &path, NULL), -ERR_NOT_FOUND);
    cr_expect_eq(cdi_check_hook("/", "/usr/bin", &path, NULL), -ERR_NOT_FOUND);
}

Test(cdi, without_a_trusted_hook_the_spec_has_none)
{
    const struct cdi_options o = {.folder = "cdi", .hook = "/nowhere/nvidia-cdi-hook"};
    const struct entry_device *devices[] = {&card};
    auto_cdi struct cdi *c = cdi_new(&o);
    cr_expect_eq(cdi_set_common(c, &nodes, &files, NULL), -ERR_NOT_FOUND);
    cr_assert_eq(cdi_write(c, &nodes, devices, 1, NULL), 0);
    auto_free char *text = read_spec();
    cr_expect_eq(count(text, "hooks"), 0);
    cr_expect_eq(count(text, "\"/usr/local/nvidia/lib64/libcuda.so.1\""), 1);
}

/* --- MetaX --- */

#define METAX_SPEC "cdi/gpu.cleave.dev-metax.json"

static char mx_name[] = "GPU-m0", mx_slice_name[] = "GPU-m0-slice-train", mx_slot[] = "slot.1";
static char mx_bus[] = "0000:05:00.0", mx_other[] = "0000:06:00.0", dev_root[] = "/host";
static const struct entry_device mx = {.vendor = "metax",
                                       .cdi_name = mx_name,
                                       .pci_bus_id = mx_bus};
static const struct entry_device mx_slice = {.vendor = "metax",
                                             .cdi_name = mx_slice_name,
                                             .pci_bus_id = mx_bus,
                                             .has_slice = true,
                                             .slice = {.id = 0,
                                                       .minor = 0,
                                                       .memory_mib = 1024,
                                                       .compute_percent = 10,
                                                       .alias = "cleave-train"}};
static const struct entry_device mx_undecided = {.vendor = "metax",
                                                 .cdi_name = mx_slot,
                                                 .pci_bus_id = mx_bus,
                                                 .is_slot = true};
static const struct entry_device mx_without_nodes = {.vendor = "metax",
                                                     .cdi_name = mx_name,
                                                     .pci_bus_id = mx_other};

static struct dri_card mx_cards[] = {
    {.bus_id = "0000:05:00.0", .cards = {1}, .n_cards = 1, .renders = {128}, .n_renders = 1}};
static struct nvidia_nodes ctl_alone = {.ctl = true, .host_dev_root = no_root};
static struct metax_files all_three = {.mxcd = true, .mxnd = true, .mxgd = true};
static const struct device_nodes both_nodes =
    {.own = {{&container_nvidia, &ctl_alone}, {&container_metax, &all_three}},
     .dri = {.cards = mx_cards, .n_cards = 1, .host_dev_root = no_root}};

static char *text_of(const char *path)
{
    char *text = NULL;
    cr_assert_eq(file_read(path, 1 << 20, &text, /* ret_len= */ NULL, NULL), 0, "%s", path);
    return text;
}

Test(cdi, spec_of_metax_is_nodes_and_for_a_slice_what_it_is)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&mx, &mx_slice, &mx_undecided};
    cr_assert_eq(cdi_set_common(c, &both_nodes, &files, NULL), 0);
    cr_assert_eq(cdi_write(c, &both_nodes, devices, 3, NULL), 0);
    auto_free char *text = text_of(METAX_SPEC);
    cr_expect_str_eq(text,
                     "{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu.cleave.dev/metax\",\n"
                     "\"containerEdits\":{"
                     "\"deviceNodes\":[{\"path\":\"/dev/mxcd\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/mxnd\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/mxgd\",\"permissions\":\"rw\"}]},\n"
                     "\"devices\":[\n"
                     "{\"name\":\"GPU-m0\",\"containerEdits\":{\"deviceNodes\":["
                     "{\"path\":\"/dev/dri/card1\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/dri/renderD128\",\"permissions\":\"rw\"}]}},\n"
                     "{\"name\":\"GPU-m0-slice-train\",\"containerEdits\":{\"env\":["
                     "\"METAX_SGPUS=sgpu=0000:05:00.0#0;compute=10;vram=1024;alias=cleave-train\"],"
                     "\"deviceNodes\":["
                     "{\"path\":\"/dev/dri/card1\",\"permissions\":\"rw\"},"
                     "{\"path\":\"/dev/dri/renderD128\",\"permissions\":\"rw\"}]}}]}\n");
    auto_json json_t *parsed = json_loads(text, 0, NULL);
    cr_expect_not_null(parsed);
    cr_expect_neq(access(SPEC, F_OK), 0, "nothing of NVIDIA's");
}

static char mx_vf_name[] = "GPU-m0-vf-0", mx_vf_bus[] = "0000:05:00.1";
static const struct entry_device mx_vf = {.vendor = "metax",
                                          .cdi_name = mx_vf_name,
                                          .pci_bus_id = mx_vf_bus,
                                          .is_vf = true};

Test(cdi, a_virtual_function_of_metax_is_the_nodes_of_its_own_address)
{
    struct dri_card both[] =
        {mx_cards[0],
         {.bus_id = "0000:05:00.1", .cards = {17}, .n_cards = 1, .renders = {144}, .n_renders = 1}};
    struct device_nodes with_vf = both_nodes;
    auto_free char *text = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(cdi_device_render(&with_vf, &mx_vf, NULL, 0, &text, &e), -(int)ERR_NOT_FOUND,
                 "its card's are not its own");
    err_clear(&e);
    with_vf.dri.cards = both;
    with_vf.dri.n_cards = 2;
    cr_assert_eq(cdi_device_render(&with_vf, &mx_vf, NULL, 0, &text, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(text, "{\"name\":\"GPU-m0-vf-0\",\"containerEdits\":{\"deviceNodes\":["
                           "{\"path\":\"/dev/dri/card17\",\"permissions\":\"rw\"},"
                           "{\"path\":\"/dev/dri/renderD144\",\"permissions\":\"rw\"}]}}");
}

Test(cdi, metax_nodes_that_do_not_stand_are_not_named_and_others_say_where_they_are)
{
    struct metax_files one = {.mxcd = true};
    const struct device_nodes some = {.own = {{&container_metax, &one}},
                                      .dri = {.host_dev_root = dev_root}};
    const struct cdi_common_options o = {.hook = "/hook",
                                         .second_folder = "/x",
                                         .set_library_path = true};
    auto_free char *text = cdi_common_render(container_vendor_find("metax"), &o, &some, &files);
    cr_expect_str_eq(text, "{\"deviceNodes\":[{\"path\":\"/dev/mxcd\","
                           "\"hostPath\":\"/host/dev/mxcd\",\"permissions\":\"rw\"}]}");
}

Test(cdi, vendors_have_a_file_each_side_by_side)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *both[] = {&card, &mx};
    cr_assert_eq(cdi_set_common(c, &both_nodes, &files, NULL), 0);
    cr_assert_eq(cdi_write(c, &both_nodes, both, 2, NULL), 0);
    auto_free char *nvidia = text_of(SPEC);
    auto_free char *metax = text_of(METAX_SPEC);
    cr_expect_eq(count(nvidia, "\"name\":"), 1);
    cr_expect_eq(count(metax, "\"name\":"), 1);
    cr_expect_eq(count(nvidia, "mxcd") + count(metax, "nvidia") + count(metax, "mounts"), 0);
    cr_assert_eq(cdi_write(c, &both_nodes, both, 1, NULL), 0);
    cr_expect_neq(access(METAX_SPEC, F_OK), 0);
    auto_free char *still = text_of(SPEC);
    cr_expect_str_eq(still, nvidia);
}

Test(cdi, what_the_files_have_is_known)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&card, &mx_without_nodes};
    cr_expect_not(cdi_has(c, &card));
    cr_expect_eq(cdi_write(c, &both_nodes, devices, 2, NULL), -ERR_NOT_FOUND);
    cr_expect(cdi_has(c, &card));
    cr_expect_not(cdi_has(c, &mx_without_nodes), "it has no render node");
    cr_assert_eq(cdi_write(c, &both_nodes, devices, 0, NULL), 0);
    cr_expect_not(cdi_has(c, &card));
}

/* A folder in its place: the one file cannot be written, the other can. */
Test(cdi, file_that_cannot_be_written_keeps_nothing_from_the_other_vendor)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device *devices[] = {&misnamed, &card, &mx};
    cr_assert_eq(file_make_dirs(SPEC, 0755, NULL), 0);
    cr_expect_eq(cdi_write(c, &both_nodes, devices, 3, NULL), -ERR_SYSTEM,
                 "which matters more than the name");
    cr_expect(cdi_has(c, &mx));
    cr_expect_not(cdi_has(c, &card));
    cr_assert_eq(rmdir(SPEC), 0);
    cr_expect_eq(cdi_write(c, &both_nodes, devices, 3, NULL), -ERR_INVALID);
    cr_expect(cdi_has(c, &card));
}

Test(cdi, device_of_a_vendor_that_is_not_known_is_told)
{
    auto_cdi struct cdi *c = cdi_new(&here);
    const struct entry_device strange = {.vendor = "amd", .cdi_name = card_name};
    const struct entry_device *devices[] = {&strange, &card};
    cr_expect_eq(cdi_write(c, &both_nodes, devices, 2, NULL), -ERR_INVALID);
    cr_expect(cdi_has(c, &card));
    cr_expect_not(cdi_has(c, &strange));
    cr_expect_null(cdi_path(c, "amd"));
}
