/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/audit/folder_mount.h"
#include "nodeagent/container/slot_pool.h"

static struct folder_mount root;

static void tear_down(void)
{
    folder_mount_done(&root);
}

TestSuite(folder_mount, .fini = tear_down);

#define DISK "25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
#define RUN  "26 25 0:23 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,mode=755\n"

static void find(const char *mountinfo, const char *path)
{
    auto_err struct err e = {0};
    folder_mount_done(&root);
    cr_assert_eq(folder_mount_parse(mountinfo, path, &root, &e), 0, "%s", err_msg(&e));
}

static int slot_of(const char *mountinfo)
{
    return folder_mount_slot(&root, mountinfo);
}

Test(folder_mount, a_path_lies_on_the_nearest_mount)
{
    find(DISK RUN, "/run/cleave/shares");
    cr_expect_str_eq(root.device, "0:23");
    cr_expect_str_eq(root.path, "/cleave/shares");
    find(RUN DISK, "/run/cleave/shares");
    cr_expect_str_eq(root.path, "/cleave/shares");
    find(DISK RUN, "/running/shares");
    cr_expect_str_eq(root.device, "254:1");
    cr_expect_str_eq(root.path, "/running/shares");
}

Test(folder_mount, an_agent_in_a_container_sees_it_below_a_mount_of_its_own)
{
    find(DISK "30 25 0:23 /cleave /run/cleave rw - tmpfs tmpfs rw\n", "/run/cleave/shares");
    cr_expect_str_eq(root.path, "/cleave/shares");
    find(DISK "30 25 0:23 /cleave/shares /run/cleave/shares rw - tmpfs tmpfs rw\n",
         "/run/cleave/shares");
    cr_expect_str_eq(root.path, "/cleave/shares");
}

Test(folder_mount, what_was_mounted_last_at_a_place_counts)
{
    find(DISK RUN "31 26 0:40 / /run rw - tmpfs tmpfs rw\n", "/run/cleave/shares");
    cr_expect_str_eq(root.device, "0:40");
}

Test(folder_mount, no_mount_has_a_path_that_is_none)
{
    auto_err struct err e = {0};
    cr_expect_eq(folder_mount_parse("", "/run/cleave", &root, &e), -ERR_NOT_FOUND);
    err_clear(&e);
    cr_expect_eq(folder_mount_parse("26 25 0:23", "/run/cleave", &root, &e), -ERR_NOT_FOUND);
    err_clear(&e);
    cr_expect_eq(folder_mount_parse(RUN, "/var/cleave", &root, &e), -ERR_NOT_FOUND);
}

Test(folder_mount, blanks_in_paths_are_read_as_such)
{
    find("25 1 254:1 /a\\040b /c\\134d rw - ext4 x rw\n", "/c\\d/e");
    cr_expect_str_eq(root.path, "/a b/e");
    find("25 1 254:1 /a\\04 /c rw - ext4 x rw\n", "/c/e");
    cr_expect_str_eq(root.path, "/a\\04/e", "no such number");
}

Test(folder_mount, a_container_shows_the_folder_that_it_was_given)
{
    find(DISK RUN, "/run/cleave/shares");
    cr_expect_eq(slot_of(
                     "90 89 0:60 / / rw - overlay overlay rw\n"
                     "91 90 0:23 /cleave/shares/share.3 /run/cleave ro - tmpfs tmpfs rw\n"
                     "92 91 0:23 /cleave/shares/share.3/usage /run/cleave/usage rw - tmpfs t\n"),
                 (int)slot_at(SLOT_POOL_SHARE, 3));
    cr_expect_eq(slot_of("91 90 0:23 /cleave/shares/koord.12 /run/cleave ro - tmpfs tmpfs rw"),
                 (int)slot_at(SLOT_POOL_KOORDINATOR, 12));
}

Test(folder_mount, what_is_no_folder_of_a_share_at_its_place_is_none)
{
    static const char *const lines[] = {
        "",
        "91",
        "91 90 0:23 /cleave/shares/share.3",
        "91 90 0:24 /cleave/shares/share.3 /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares/share.3 /run/cleave/x ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/sharesshare.3 /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares/share.3//deleted /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares/share.3/share.4 /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares/slot.3 /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares/share.99999 /run/cleave ro - tmpfs tmpfs rw",
        "91 90 0:23 /cleave/shares/.new-share.3 /run/cleave ro - tmpfs tmpfs rw",
    };
    find(DISK RUN, "/run/cleave/shares");
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        cr_expect_eq(slot_of(lines[i]), -1, "%s", lines[i]);
}

Test(folder_mount, the_agents_own_mounts_have_its_folder)
{
    auto_free char *folder = folder_make();
    auto_err struct err e = {0};
    cr_expect_eq(folder_mount_find(folder, &root, &e), 0, "%s", err_msg(&e));
    cr_expect(strrchr(folder, '/'));
    cr_expect_str_eq(strrchr(root.path, '/'), strrchr(folder, '/'));
    folder_remove(folder);
}
