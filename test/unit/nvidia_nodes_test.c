/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

TestSuite(nvidia_nodes, .init = folder_enter, .fini = folder_leave);

static const struct driver_where here = {.proc_root = "proc", .dev_root = "."};

static void put(const char *path, const char *text)
{
    auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(parent, 0755, NULL), 0);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static const char devices[] = "Character devices:\n"
                              "  1 mem\n"
                              "195 nvidia\n"
                              "195 nvidia-modeset\n"
                              "195 nvidiactl\n"
                              "236 nvidia-caps\n"
                              "511 nvidia-uvm\n"
                              "\n"
                              "Block devices:\n"
                              "259 blkext\n"
                              "  7 loop\n";

static const char minors[] = "config 1\n"
                             "monitor 2\n"
                             "gpu0/gi0/access 3\n"
                             "gpu0/gi0/ci0/access 4\n"
                             "gpu0/gi1/access 12\n"
                             "gpu1/gi0/access 138\n"
                             "gpu1/gi0/ci7/access 146\n";

Test(nvidia_nodes, majors_are_found_by_whole_name)
{
    cr_expect_eq(nvidia_nodes_parse_major(devices, "nvidia"), 195);
    cr_expect_eq(nvidia_nodes_parse_major(devices, "nvidia-uvm"), 511);
    cr_expect_eq(nvidia_nodes_parse_major(devices, "mem"), 1);
    cr_expect_eq(nvidia_nodes_parse_major(devices, "nvidia-frontend"), -1);
    cr_expect_eq(nvidia_nodes_parse_major(devices, "nvidia-cap"), -1);
}

Test(nvidia_nodes, block_devices_do_not_count)
{
    cr_expect_eq(nvidia_nodes_parse_major(devices, "loop"), -1);
}

Test(nvidia_nodes, capability_minors_are_found_by_instance)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    cr_assert_eq(nvidia_nodes_parse_mig_minors(minors, &n, NULL), 0);
    cr_expect_eq(nvidia_nodes_cap_minor(&n, 0, 0, -1), 3);
    cr_expect_eq(nvidia_nodes_cap_minor(&n, 0, 0, 0), 4);
    cr_expect_eq(nvidia_nodes_cap_minor(&n, 1, 0, 7), 146);
    cr_expect_eq(nvidia_nodes_cap_minor(&n, 1, 0, 6), -1);
    cr_expect_eq(n.config_minor, 1);
    cr_expect_eq(n.monitor_minor, 2);
}

static const char *const strange_lines[] = {"gpu0/gi0/access",           "gpu/gi0/access 3",
                                            "gpu0/gi0/ci/access 3",      "gpu0/gi0/access -3",
                                            "gpu0/gi0/access 3 ",        "gpu0/gi0/access 0x3",
                                            "gpu0/gi0/accessx 3",        "gpu70000/gi0/access 3",
                                            "gpu0/gi0/access 9999999",   "gpu0/gi0//ci0/access 3",
                                            "gpu0/gi0/ci0/ci0/access 3", "gpu0/gi256/access 3",
                                            "gpu0/gi0/ci128/access 3"};

Test(nvidia_nodes, lines_of_another_shape_are_skipped)
{
    for (size_t i = 0; i < ARRAY_LEN(strange_lines); i++) {
        auto_nvidia_nodes struct nvidia_nodes n = {0};
        auto_free char *text = xasprintf("%s\ngpu0/gi1/access 12\n", strange_lines[i]);
        cr_assert_eq(nvidia_nodes_parse_mig_minors(text, &n, NULL), 0);
        cr_expect_eq(n.n_caps, 1, "%s", strange_lines[i]);
    }
}

Test(nvidia_nodes, too_many_capabilities_are_refused)
{
    auto_free char *text = xmalloc(65537 * 19 + 1);
    for (size_t i = 0; i < 65537; i++)
        memcpy(text + i * 18, "gpu0/gi0/access 1\n", 19);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    cr_expect_eq(nvidia_nodes_parse_mig_minors(text, &n, NULL), -ERR_TOO_LARGE);
}

Test(nvidia_nodes, capability_file_says_minor_mode_and_modify)
{
    struct nvidia_nodes_file f =
        nvidia_nodes_parse_file("DeviceFileMinor: 4\nDeviceFileMode: 292\nDeviceFileModify: 0\n");
    cr_expect_eq(f.minor, 4);
    cr_expect_eq(f.mode, 0444);
    cr_expect_not(f.modify);
}

Test(nvidia_nodes, settings_that_are_not_told_are_the_drivers_defaults)
{
    struct nvidia_nodes_file f = nvidia_nodes_parse_file("DeviceFileMode: 99999\nVersion: 7\n");
    cr_expect_eq(f.minor, -1);
    cr_expect_eq(f.mode, 0666);
    cr_expect_eq(f.uid, 0);
    cr_expect_eq(f.gid, 0);
    cr_expect(f.modify);
}

Test(nvidia_nodes, everything_is_read_below_the_roots)
{
    put("proc/devices", devices);
    put("proc/driver/nvidia-caps/mig-minors", minors);
    put("dev/nvidiactl", "");
    put("dev/nvidia-uvm", "");
    cr_assert_eq(symlink("nvidia-uvm", "dev/nvidia-uvm-tools"), 0);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    struct driver_where installed = here;
    installed.host_dev_root = "/run/nvidia/driver";
    cr_assert_eq(nvidia_nodes_read(&installed, &n, NULL), 0);
    cr_expect_eq(n.nvidia_major, 195);
    cr_expect_eq(n.uvm_major, 511);
    cr_expect_eq(n.caps_major, 236);
    cr_expect(n.has_modeset);
    cr_expect(n.ctl);
    cr_expect(n.uvm);
    cr_expect_not(n.uvm_tools, "a link does not count");
    cr_expect_not(n.modeset);
    cr_expect_eq(n.n_caps, 5);
    cr_expect_str_eq(n.host_dev_root, "/run/nvidia/driver");
}

Test(nvidia_nodes, older_drivers_are_called_frontend)
{
    put("proc/devices", "Character devices:\n195 nvidia-frontend\n");
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    struct driver_where at_root = here;
    at_root.host_dev_root = "/";
    cr_assert_eq(nvidia_nodes_read(&at_root, &n, NULL), 0);
    cr_expect_eq(n.nvidia_major, 195);
    cr_expect_eq(n.caps_major, -1);
    cr_expect_str_eq(n.host_dev_root, "");
}

Test(nvidia_nodes, without_a_driver_there_is_nothing_and_no_error)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    cr_assert_eq(nvidia_nodes_read(&here, &n, NULL), 0);
    cr_expect_eq(n.nvidia_major, -1);
    cr_expect_eq(n.config_minor, -1);
    cr_expect_eq(nvidia_nodes_cap_minor(&n, 0, 0, -1), -1);
}

/* --- Files that go missing --- */

static void read_all(struct nvidia_nodes *n)
{
    put("proc/devices", devices);
    put("dev/nvidiactl", "");
    put("dev/nvidia0", "");
    put("dev/nvidia12", "");
    cr_assert_eq(nvidia_nodes_read(&here, n, NULL), 0);
}

Test(nvidia_nodes, cards_have_the_files_of_their_minors)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    put("dev/nvidia7x", "");
    put("dev/nvidia254", "");
    cr_assert_eq(symlink("nvidia0", "dev/nvidia3"), 0);
    read_all(&n);
    cr_expect(nvidia_nodes_have_card(&n, 0));
    cr_expect(nvidia_nodes_have_card(&n, 12));
    cr_expect_not(nvidia_nodes_have_card(&n, 3), "a link does not count");
    cr_expect_not(nvidia_nodes_have_card(&n, 7));
    cr_expect(nvidia_nodes_have_card(&n, UINT_MAX), "a minor that is not known is not judged");
}

Test(nvidia_nodes, without_a_driver_no_card_is_judged)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    cr_assert_eq(nvidia_nodes_read(&here, &n, NULL), 0);
    cr_expect(nvidia_nodes_have_card(&n, 0));
}

Test(nvidia_nodes, a_file_that_goes_or_comes_is_news)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_all(&n);
    cr_expect(nvidia_nodes_are_current(&here, &n));
    cr_assert_eq(unlink("dev/nvidia12"), 0);
    cr_expect_not(nvidia_nodes_are_current(&here, &n));
    nvidia_nodes_look(&here, &n);
    cr_expect(nvidia_nodes_are_current(&here, &n));
    put("dev/nvidia-uvm", "");
    cr_expect_not(nvidia_nodes_are_current(&here, &n));
}

Test(nvidia_nodes, a_module_that_was_loaded_again_is_news)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_all(&n);
    put("proc/devices", "Character devices:\n196 nvidia\n");
    cr_expect_not(nvidia_nodes_are_current(&here, &n));
}
