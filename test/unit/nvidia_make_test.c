/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/vendor/nvidia/nvidia_make.h"

static void put(const char *path, const char *text)
{
    auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(parent, 0755, NULL), 0);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

/* Where device files cannot be made at all (no CAP_MKNOD) there is nothing to look at. */
static void enter(void)
{
    folder_enter();
    if (mknod("probe", S_IFCHR | 0600, makedev(1, 3)) < 0)
        cr_skip_test("device files cannot be made here");
    put("proc/devices", "Character devices:\n195 nvidia\n195 nvidia-modeset\n236 nvidia-caps\n"
                        "511 nvidia-uvm\n");
    put("proc/driver/nvidia-caps/mig-minors",
        "config 1\nmonitor 2\ngpu3/gi7/access 471\ngpu3/gi7/ci0/access 472\n");
    put("proc/driver/nvidia/capabilities/mig/config",
        "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
    put("proc/driver/nvidia/capabilities/gpu3/mig/gi7/access",
        "DeviceFileMinor: 471\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
    put("proc/driver/nvidia/capabilities/gpu3/mig/gi7/ci0/access",
        "DeviceFileMinor: 472\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
    cr_assert_eq(mkdir("dev", 0755), 0);
}

TestSuite(nvidia_make, .init = enter, .fini = folder_leave);

static const struct driver_where here = {.proc_root = "proc", .dev_root = "."};
static const unsigned cards[] = {0, 3};

static void read_nodes(struct nvidia_nodes *n)
{
    cr_assert_eq(nvidia_nodes_read(&here, n, NULL), 0);
}

static void expect_node(const char *path, unsigned major, unsigned minor, mode_t mode)
{
    struct stat st;
    cr_assert_eq(lstat(path, &st), 0, "%s is missing", path);
    cr_expect(S_ISCHR(st.st_mode), "%s", path);
    cr_expect_eq(st.st_rdev, makedev(major, minor), "%s", path);
    cr_expect_eq(st.st_mode & 07777, mode, "%s has %o", path, st.st_mode & 07777);
}

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n - 2;
}

Test(nvidia_make, common_files_and_cards_get_their_numbers)
{
    (void)umask(077);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 2, NULL), 0);
    expect_node("dev/nvidiactl", 195, 255, 0666);
    expect_node("dev/nvidia0", 195, 0, 0666);
    expect_node("dev/nvidia3", 195, 3, 0666);
    expect_node("dev/nvidia-modeset", 195, 254, 0666);
    expect_node("dev/nvidia-uvm", 511, 0, 0666);
    expect_node("dev/nvidia-uvm-tools", 511, 1, 0666);
    expect_node("dev/nvidia-caps/nvidia-cap1", 236, 1, 0400);
    cr_expect_eq(count_entries("dev/nvidia-caps"), 1, "monitor is not shown");
    cr_expect(n.ctl && n.uvm && n.uvm_tools && n.modeset);
}

Test(nvidia_make, slices_get_both_capability_files)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_caps(&here, &n, 3, 7, 0, NULL), 0);
    expect_node("dev/nvidia-caps/nvidia-cap471", 236, 471, 0444);
    expect_node("dev/nvidia-caps/nvidia-cap472", 236, 472, 0444);
    cr_expect_eq(count_entries("dev/nvidia-caps"), 2, "no drafts stay");
}

Test(nvidia_make, slices_that_the_driver_does_not_show_are_not_found)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_expect_eq(nvidia_make_caps(&here, &n, 3, 8, 0, NULL), -ERR_NOT_FOUND);
    cr_assert_eq(unlink("proc/driver/nvidia/capabilities/gpu3/mig/gi7/ci0/access"), 0);
    cr_expect_eq(nvidia_make_caps(&here, &n, 3, 7, 0, NULL), -ERR_NOT_FOUND);
}

Test(nvidia_make, minors_that_disagree_are_refused)
{
    put("proc/driver/nvidia/capabilities/gpu3/mig/gi7/access",
        "DeviceFileMinor: 9\nDeviceFileMode: 292\n");
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_expect_eq(nvidia_make_caps(&here, &n, 3, 7, 0, NULL), -ERR_PROTOCOL);
}

Test(nvidia_make, right_files_are_left_as_they_are)
{
    cr_assert_eq(mknod("dev/nvidiactl", S_IFCHR | 0600, makedev(195, 255)), 0);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 0, NULL), 0);
    expect_node("dev/nvidiactl", 195, 255, 0600);
}

Test(nvidia_make, wrong_numbers_are_replaced)
{
    cr_assert_eq(mknod("dev/nvidia-uvm", S_IFCHR | 0666, makedev(510, 0)), 0);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 0, NULL), 0);
    expect_node("dev/nvidia-uvm", 511, 0, 0666);
}

Test(nvidia_make, links_are_left_alone_and_the_others_made)
{
    put("elsewhere/victim", "as it was");
    cr_assert_eq(symlink("../elsewhere/victim", "dev/nvidia0"), 0);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    auto_err struct err e = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 2, &e), -ERR_CONFLICT);
    cr_expect_not_null(strstr(err_msg(&e), "nvidia0"));
    expect_node("dev/nvidia3", 195, 3, 0666);
    auto_free char *text = NULL;
    cr_assert_eq(file_read("elsewhere/victim", 100, &text, NULL, NULL), 0);
    cr_expect_str_eq(text, "as it was");
}

Test(nvidia_make, linked_folders_are_not_entered)
{
    cr_assert_eq(mkdir("elsewhere", 0755), 0);
    cr_assert_eq(symlink("../elsewhere", "dev/nvidia-caps"), 0);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_expect_lt(nvidia_make_caps(&here, &n, 3, 7, 0, NULL), 0);
    cr_expect_eq(count_entries("elsewhere"), 0);
}

Test(nvidia_make, driver_may_keep_it_to_itself)
{
    put("proc/driver/nvidia/params", "ModifyDeviceFiles: 0\n");
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 2, NULL), 0);
    cr_expect_neq(access("dev/nvidiactl", F_OK), 0);
}

Test(nvidia_make, owner_and_mode_are_the_drivers)
{
    put("proc/driver/nvidia/params",
        "DeviceFileUID: 12\nDeviceFileGID: 34\nDeviceFileMode: 432\nModifyDeviceFiles: 1\n");
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    struct stat st;
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 2, NULL), 0);
    expect_node("dev/nvidia3", 195, 3, 0660);
    cr_assert_eq(stat("dev/nvidia3", &st), 0);
    cr_expect_eq(st.st_uid, 12);
    cr_expect_eq(st.st_gid, 34);
}

Test(nvidia_make, drafts_of_a_crash_are_no_hindrance)
{
    cr_assert_eq(mknod("dev/.nvidia3.cleave", S_IFCHR | 0600, makedev(1, 3)), 0);
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_assert_eq(nvidia_make_cards(&here, &n, cards, 2, NULL), 0);
    expect_node("dev/nvidia3", 195, 3, 0666);
    cr_expect_neq(access("dev/.nvidia3.cleave", F_OK), 0);
}

Test(nvidia_make, without_a_driver_nothing_is_made)
{
    struct nvidia_nodes n = {0};
    cr_expect_eq(nvidia_make_cards(&here, &n, cards, 2, NULL), 0);
    cr_expect_eq(count_entries("dev"), 0);
}

Test(nvidia_make, missing_folder_is_an_error)
{
    const struct driver_where nowhere = {.proc_root = "proc", .dev_root = "nowhere"};
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    read_nodes(&n);
    cr_expect_eq(nvidia_make_cards(&nowhere, &n, cards, 2, NULL), -ERR_SYSTEM);
}
