/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/fresh_folder.h"

TestSuite(fresh_folder, .init = folder_enter, .fini = folder_leave);

static bool fdopendir_fails;

/* The C library's, unless the test makes it fail. */
DIR *fdopendir(int fd)
{
    if (fdopendir_fails) {
        errno = ENOMEM;
        return NULL;
    }
    DIR *(*real)(int) = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");
    return real(fd);
}

static void put(const char *path)
{
    cr_assert_eq(file_write_atomic(path, "", 0, 0600, NULL), 0);
}

static size_t count(const char *path)
{
    auto_dir DIR *dir = opendir(path);
    size_t n = 0;
    cr_assert_not_null(dir, "%s", path);
    while (readdir(dir))
        n++;
    return n - 2;
}

static void make(void)
{
    auto_err struct err e = {0};
    cr_assert_eq(fresh_folder_make("mps/gpu/pipe", 0755, &e), 0, "%s", err_msg(&e));
}

static void expect_fresh(void)
{
    struct stat st;
    cr_assert_eq(lstat("mps/gpu/pipe", &st), 0);
    cr_expect(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755, "%o", (unsigned)st.st_mode);
    cr_expect_eq(st.st_uid, geteuid());
    cr_expect_eq(count("mps/gpu/pipe"), 0);
    cr_expect_eq(count("mps/gpu"), 1, "nothing is left beside it");
}

Test(fresh_folder, is_made_with_those_above_whatever_the_umask_is)
{
    (void)umask(077);
    make();
    expect_fresh();
}

/* What a container of the daemon before left, and goes on with. */
Test(fresh_folder, whoever_has_the_one_before_does_not_reach_it)
{
    make();
    auto_fd int mounted = open("mps/gpu/pipe", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put("mps/gpu/pipe/control_lock");
    make();
    expect_fresh();
    cr_expect_lt(symlinkat("/etc/passwd", mounted, "log"), 0, "the folder is gone");
    expect_fresh();
}

Test(fresh_folder, links_are_removed_and_not_followed)
{
    cr_assert_eq(file_make_dirs("kept/deep", 0755, NULL), 0);
    put("kept/file");
    put("kept/deep/file");
    make();
    cr_assert_eq(symlink("../../../kept", "mps/gpu/pipe/control"), 0);
    cr_assert_eq(symlink("../../../kept/file", "mps/gpu/pipe/log"), 0);
    cr_assert_eq(mkdir("mps/gpu/pipe/d", 0), 0);
    cr_assert_eq(mknod("mps/gpu/pipe/socket", S_IFSOCK | 0666, 0), 0);
    make();
    expect_fresh();
    cr_expect_eq(count("kept"), 2);
    cr_expect_eq(count("kept/deep"), 1);
}

Test(fresh_folder, link_in_its_place_goes_and_leads_nowhere)
{
    cr_assert_eq(file_make_dirs("mps/gpu", 0755, NULL), 0);
    cr_assert_eq(file_make_dirs("kept", 0700, NULL), 0);
    put("kept/file");
    cr_assert_eq(symlink("../../kept", "mps/gpu/pipe"), 0);
    make();
    expect_fresh();
    cr_expect_eq(count("kept"), 1);
}

Test(fresh_folder, link_for_the_folder_above_is_refused)
{
    cr_assert_eq(file_make_dirs("mps", 0755, NULL), 0);
    cr_assert_eq(file_make_dirs("kept", 0755, NULL), 0);
    cr_assert_eq(symlink("../kept", "mps/gpu"), 0);
    cr_expect_eq(fresh_folder_make("mps/gpu/pipe", 0755, NULL), -ERR_SYSTEM);
    cr_expect_eq(count("kept"), 0);
}

/* A loop of the agent's does not stand still for a container's fun. */
Test(fresh_folder, thousands_of_files_are_removed_by_and_by)
{
    make();
    for (int i = 0; i < 5000; i++) {
        auto_free char *path = xasprintf("mps/gpu/pipe/%d", i);
        cr_assert_eq(mknod(path, S_IFREG | 0600, 0), 0);
    }
    make();
    cr_expect_eq(count("mps/gpu/pipe"), 0);
    cr_expect_eq(count("mps/gpu"), 2);
    make();
    expect_fresh();
}

static void fill_deeply(unsigned depth)
{
    cr_assert_eq(chdir("mps/gpu/pipe"), 0);
    for (unsigned i = 0; i < depth; i++) {
        put("file");
        cr_assert(mkdir("d", 0755) == 0 && chdir("d") == 0);
    }
    cr_assert_eq(chdir(folder_path()), 0);
}

Test(fresh_folder, folders_in_folders_are_removed_however_deep)
{
    make();
    fill_deeply(500);
    make();
    expect_fresh();
}

/* Each call has the same bound, and the log says what becomes of the rest. */
Test(fresh_folder, thousands_of_folders_in_folders_are_removed_by_and_by)
{
    auto_fd int log = memfd_create("log", MFD_CLOEXEC);
    char text[1024] = "";
    log_setup(LOG_WARN, LOG_LOGFMT, log);
    make();
    fill_deeply(3000);
    make();
    cr_expect_eq(count("mps/gpu/pipe"), 0);
    cr_expect_gt(count("mps/gpu"), 1);
    cr_expect_gt(pread(log, text, sizeof(text) - 1, 0), 0);
    cr_expect(strstr(text, "folder=mps/gpu/pipe") && strstr(text, "removed=4096"), "%s", text);
    make();
    expect_fresh();
    log_setup(LOG_ERROR, LOG_LOGFMT, STDERR_FILENO);
}

Test(fresh_folder, a_folder_that_cannot_be_listed_costs_no_descriptor)
{
    make();
    put("mps/gpu/pipe/left");
    size_t before = count("/proc/self/fd");
    fdopendir_fails = true;
    make();
    fdopendir_fails = false;
    cr_expect_eq(count("/proc/self/fd"), before);
    cr_expect_eq(count("mps/gpu/pipe"), 0);
}

/* The agent's container has no capability to pass over modes and owners. */
static void give_up_passing_over_modes(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    cr_assert_eq(syscall(SYS_capget, &head, sets), 0);
    sets[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH | 1U << CAP_FOWNER);
    cr_assert_eq(syscall(SYS_capset, &head, sets), 0);
}

/* A container's root is the agent's user; in the container it may do more than the agent. */
Test(fresh_folder, folders_without_any_rights_are_removed)
{
    make();
    cr_assert_eq(mkdir("mps/gpu/pipe/x", 0700), 0);
    cr_assert_eq(mkdir("mps/gpu/pipe/x/y", 0700), 0);
    put("mps/gpu/pipe/x/y/left");
    cr_assert_eq(chmod("mps/gpu/pipe/x/y", 0), 0);
    cr_assert_eq(chmod("mps/gpu/pipe/x", 0), 0);
    give_up_passing_over_modes();
    make();
    expect_fresh();
}

Test(fresh_folder, what_another_user_owns_stays_and_is_said)
{
    if (geteuid() != 0)
        cr_skip_test("only root can give a folder away");
    auto_fd int log = memfd_create("log", MFD_CLOEXEC);
    char text[1024] = "";
    log_setup(LOG_WARN, LOG_LOGFMT, log);
    make();
    cr_assert_eq(mkdir("mps/gpu/pipe/x", 0700), 0);
    put("mps/gpu/pipe/x/left");
    cr_assert_eq(chown("mps/gpu/pipe/x", 1000, 1000), 0);
    give_up_passing_over_modes();
    make();
    cr_expect_eq(count("mps/gpu/pipe"), 0);
    cr_expect_gt(pread(log, text, sizeof(text) - 1, 0), 0);
    cr_expect(strstr(text, "folder=mps/gpu/pipe") && strstr(text, "owns some"), "%s", text);
    log_setup(LOG_ERROR, LOG_LOGFMT, STDERR_FILENO);
}

/* At no time does the name lead to a part of it. */
Test(fresh_folder, a_removed_one_leaves_nothing_and_may_be_missing)
{
    auto_err struct err e = {0};
    make();
    put("mps/gpu/pipe/file");
    auto_fd int mounted = open("mps/gpu/pipe", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(fresh_folder_remove("mps/gpu/pipe", &e), 0, "%s", err_msg(&e));
    cr_expect_eq(count("mps/gpu"), 0);
    cr_expect_neq(faccessat(mounted, "file", F_OK, 0), 0);
    cr_expect_eq(fresh_folder_remove("mps/gpu/pipe", &e), 0, "%s", err_msg(&e));
}
