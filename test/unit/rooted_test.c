/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/rooted.h"

static void enter(void)
{
    folder_enter();
    cr_assert_eq(file_make_dirs("root/usr/lib", 0755, NULL), 0);
    cr_assert_eq(file_make_dirs("root/run", 0755, NULL), 0);
    cr_assert_eq(file_write_atomic("root/usr/lib/a", "", 0, 0644, NULL), 0);
}

TestSuite(rooted, .init = enter, .fini = folder_leave);

static void expect(const char *path, const char *leads_to)
{
    auto_free char *found = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(rooted_resolve("root", path, &found, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(found, leads_to);
}

Test(rooted, plain_paths_are_themselves)
{
    expect("/usr/lib/a", "/usr/lib/a");
    expect("/usr//lib/./a/", "/usr/lib/a");
    expect("/", "/");
}

Test(rooted, absolute_links_stay_in_the_root)
{
    cr_assert_eq(symlink("/usr/lib", "root/lib"), 0);
    expect("/lib/a", "/usr/lib/a");
}

Test(rooted, relative_links_are_relative_to_where_they_lie)
{
    cr_assert_eq(symlink("../run", "root/usr/run"), 0);
    cr_assert_eq(symlink("lib/a", "root/usr/b"), 0);
    expect("/usr/run", "/run");
    expect("/usr/b", "/usr/lib/a");
}

Test(rooted, nothing_leads_above_the_root)
{
    cr_assert_eq(symlink("../../../../usr/lib/a", "root/usr/up"), 0);
    expect("/usr/up", "/usr/lib/a");
    expect("/../../usr/lib", "/usr/lib");
}

Test(rooted, circles_of_links_end)
{
    cr_assert_eq(symlink("two", "root/one"), 0);
    cr_assert_eq(symlink("one", "root/two"), 0);
    auto_free char *found = NULL;
    cr_expect_eq(rooted_resolve("root", "/one", &found, NULL), -ERR_INVALID);
    cr_expect_null(found);
}

Test(rooted, what_is_not_there_is_not_found)
{
    auto_free char *found = NULL;
    cr_expect_eq(rooted_resolve("root", "/usr/lib/a/b", &found, NULL), -ERR_NOT_FOUND);
    cr_expect_eq(rooted_resolve("root", "/usr/lib64", &found, NULL), -ERR_NOT_FOUND);
}

static void expect_refused(const char *path, const char *because)
{
    auto_free char *found = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(rooted_resolve("root", path, &found, &e), -ERR_FORBIDDEN, "%s", path);
    cr_expect_not_null(strstr(err_msg(&e), because), "%s", err_msg(&e));
}

Test(rooted, no_folder_that_others_may_write_is_walked)
{
    static const unsigned modes[] = {01777, 0777, 0775, 0757};
    cr_assert_eq(symlink("/run/../usr", "root/way"), 0);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        cr_assert_eq(chmod("root/run", modes[i]), 0);
        expect_refused("/run", "root/run is not used: its mode");
        expect_refused("/run/../usr/lib/a", "root/run is not used");
        expect_refused("/way/lib/a", "root/run is not used");
    }
    cr_assert_eq(chmod("root/run", 0755), 0);
    expect("/way/lib/a", "/usr/lib/a");
}

Test(rooted, root_that_others_may_write_is_none)
{
    cr_assert_eq(chmod("root", 0777), 0);
    expect_refused("/usr/lib/a", "root is not used");
    expect_refused("/", "root is not used");
}

Test(rooted, links_folders_and_files_of_others_are_not_followed)
{
    if (geteuid() != 0)
        cr_skip_test("only root can make what belongs to somebody else");
    cr_assert_eq(symlink("/usr/lib", "root/lib"), 0);
    cr_assert_eq(lchown("root/lib", 12345, 0), 0);
    expect_refused("/lib/a", "root/lib is not used: it belongs to user 12345");
    cr_assert_eq(lchown("root/lib", 0, 12345), 0);
    expect("/lib/a", "/usr/lib/a");
    cr_assert_eq(chown("root/usr/lib/a", 12345, 0), 0);
    expect_refused("/lib/a", "root/usr/lib/a is not used");
}

Test(rooted, what_is_opened_is_what_was_walked)
{
    auto_free char *found = NULL;
    auto_fd int fd = -1;
    struct stat here, there;
    cr_assert_eq(symlink("/usr/lib", "root/lib"), 0);
    cr_assert_eq(rooted_open("root", "/lib/a", &found, &fd, NULL), 0);
    cr_assert_eq(rename("root/usr", "root/moved"), 0);
    cr_assert_eq(fstat(fd, &here), 0);
    cr_assert_eq(stat("root/moved/lib/a", &there), 0);
    cr_expect_eq(here.st_ino, there.st_ino);
    cr_expect_str_eq(found, "/usr/lib/a");
}

Test(rooted, joining_keeps_one_slash)
{
    auto_free char *a = rooted_join("/", "/usr");
    auto_free char *b = rooted_join("/run/driver/", "/usr");
    auto_free char *c = rooted_join("", "/usr");
    cr_expect_str_eq(a, "/usr");
    cr_expect_str_eq(b, "/run/driver/usr");
    cr_expect_str_eq(c, "/usr");
}
