/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/commands/runtime_install.h"

/*
 * The working directory has "image/cleave-runtime", the program as the image has it, and "host", the
 * folder of the host. What a limit of time ends is a reader that waits.
 */
#define PROGRAM "image/cleave-runtime"
#define COPY    "host/cleave-runtime"
enum { LARGE_BYTES = 300 << 10, ROUNDS = 20 };

static void put(const char *path, const char *text, unsigned mode)
{
    cr_assert_eq(file_write_atomic(path, text, strlen(text), mode, NULL), 0);
    cr_assert_eq(chmod(path, mode), 0);
}

static void enter(void)
{
    folder_enter();
    cr_assert_eq(mkdir("image", 0755), 0);
    cr_assert_eq(mkdir("host", 0755), 0);
    put(PROGRAM, "version 1", 0755);
}

TestSuite(runtime_install, .init = enter, .fini = folder_leave, .timeout = 60);

static void install(void)
{
    auto_err struct err e = {0};
    cr_assert_eq(runtime_install(PROGRAM, "host", &e), 0, "%s", err_msg(&e));
}

static void expect_refused(const char *folder, enum err_kind kind, const char *words)
{
    auto_err struct err e = {0};
    cr_expect_eq(runtime_install(PROGRAM, folder, &e), -(int)kind);
    cr_expect(strstr(err_msg(&e), words), "%s", err_msg(&e));
}

static struct stat stat_of(const char *path)
{
    struct stat st;
    cr_assert_eq(lstat(path, &st), 0, "%s: %s", path, strerror(errno));
    return st;
}

static void expect_text(const char *path, const char *want)
{
    auto_free char *text = NULL;
    cr_assert_eq(file_read(path, 100, &text, NULL, NULL), 0, "%s", path);
    cr_expect_str_eq(text, want);
}

/* A file of the program's text and mode, and nothing beside it. */
static void expect_installed(const char *want)
{
    struct stat st = stat_of(COPY);
    cr_expect(S_ISREG(st.st_mode));
    cr_expect_eq(st.st_mode & 07777U, 0755, "mode %03o", st.st_mode & 07777U);
    expect_text(COPY, want);
    auto_dir DIR *d = opendir("host");
    size_t n = 0;
    while (readdir(d))
        n++;
    cr_expect_eq(n - 2, 1, "%zu files", n - 2);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* --- What is installed --- */

Test(runtime_install, an_empty_folder_gets_the_program)
{
    install();
    expect_installed("version 1");
}

Test(runtime_install, the_program_lies_beside_our_own)
{
    auto_free char *path = NULL;
    char own[4096] = "";
    cr_assert_eq(runtime_beside_us("runtime_install_test", &path, NULL), 0);
    cr_assert_gt(readlink("/proc/self/exe", own, sizeof(own) - 1), 0);
    cr_expect_str_eq(path, own);
}

Test(runtime_install, the_same_program_is_not_written_again)
{
    install();
    struct stat before = stat_of(COPY);
    install();
    struct stat after = stat_of(COPY);
    cr_expect(is_same_file(&before, &after));
}

Test(runtime_install, another_version_is_a_new_file_and_who_runs_the_old_one_keeps_it)
{
    install();
    struct stat before = stat_of(COPY);
    cr_assert_eq(link(COPY, "running"), 0);
    put(PROGRAM, "version 2", 0755);
    install();
    expect_installed("version 2");
    cr_expect_neq(stat_of(COPY).st_ino, before.st_ino);
    expect_text("running", "version 1");
}

static void put_large(char letter)
{
    auto_free char *text = xmalloc(LARGE_BYTES + 1);
    memset(text, letter, LARGE_BYTES);
    text[LARGE_BYTES] = '\0';
    put(PROGRAM, text, 0755);
}

/* Ends by itself when the test does not. */
static pid_t start_installing(void)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid)
        return pid;
    for (int i = 0; i < ROUNDS; i++) {
        put_large(i % 2 ? 'b' : 'a');
        if (runtime_install(PROGRAM, "host", NULL) < 0)
            _exit(1);
    }
    _exit(0);
}

static void expect_whole(void)
{
    auto_free char *text = NULL;
    size_t len = 0;
    auto_err struct err e = {0};
    cr_assert_eq(file_read(COPY, LARGE_BYTES * 2, &text, &len, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(len, LARGE_BYTES);
    cr_assert_eq(strspn(text, (char[]){text[0], '\0'}), LARGE_BYTES, "two versions in one file");
}

Test(runtime_install, there_is_a_whole_program_at_any_time)
{
    put_large('a');
    install();
    pid_t pid = start_installing();
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0)
        expect_whole();
    cr_expect_eq(status, 0);
    expect_whole();
}

Test(runtime_install, its_mode_is_the_same_under_any_umask)
{
    (void)umask(077);
    install();
    expect_installed("version 1");
    struct stat before = stat_of(COPY);
    install();
    struct stat after = stat_of(COPY);
    cr_expect(is_same_file(&before, &after));
}

Test(runtime_install, a_copy_of_another_mode_is_replaced)
{
    put(COPY, "version 1", 0777);
    install();
    expect_installed("version 1");
}

Test(runtime_install, what_a_killed_agent_left_goes)
{
    put("host/cleave-runtime.0123456789abcdef.tmp", "versi", 0755);
    install();
    expect_installed("version 1");
}

/* --- What is in its place --- */

Test(runtime_install, a_link_is_replaced_and_what_it_leads_to_is_left_alone)
{
    put("elsewhere", "of the host", 0644);
    cr_assert_eq(symlink("../elsewhere", COPY), 0);
    install();
    expect_installed("version 1");
    expect_text("elsewhere", "of the host");
    cr_expect_eq(stat_of("elsewhere").st_mode & 07777U, 0644);
}

/* The other file's owner could change the program. */
Test(runtime_install, a_link_to_an_equal_program_is_replaced_too)
{
    put("elsewhere", "version 1", 0755);
    cr_assert_eq(symlink("../elsewhere", COPY), 0);
    install();
    expect_installed("version 1");
}

Test(runtime_install, an_equal_program_of_another_user_is_replaced)
{
    put(COPY, "version 1", 0755);
    if (chown(COPY, 65534, 65534) < 0)
        cr_skip("only root gives files away");
    install();
    expect_installed("version 1");
    cr_expect_eq(stat_of(COPY).st_uid, geteuid());
}

Test(runtime_install, a_link_that_leads_nowhere_makes_no_file_there)
{
    cr_assert_eq(symlink("../elsewhere", COPY), 0);
    install();
    expect_installed("version 1");
    cr_expect_lt(access("elsewhere", F_OK), 0);
}

Test(runtime_install, a_pipe_is_replaced_and_not_waited_for)
{
    cr_assert_eq(mkfifo(COPY, 0755), 0);
    cr_assert_eq(chmod(COPY, 0755), 0);
    install();
    expect_installed("version 1");
}

Test(runtime_install, a_folder_of_its_name_stays)
{
    cr_assert_eq(mkdir(COPY, 0755), 0);
    put(COPY "/mine", "of the host", 0644);
    expect_refused("host", ERR_SYSTEM, COPY ": Is a directory");
    expect_text(COPY "/mine", "of the host");
    cr_assert_eq(unlink(COPY "/mine"), 0);
    cr_assert_eq(rmdir(COPY), 0);
    cr_expect_eq(rmdir("host"), 0, "a temporary file is left");
}

/* --- Where it cannot be installed --- */

Test(runtime_install, a_folder_that_is_not_there_is_named)
{
    expect_refused("none", ERR_NOT_FOUND, "folder none does not exist");
    expect_refused(PROGRAM, ERR_SYSTEM, "folder " PROGRAM ": Not a directory");
    cr_expect_lt(access("none", F_OK), 0);
}

Test(runtime_install, a_program_that_is_not_there_is_named)
{
    cr_assert_eq(unlink(PROGRAM), 0);
    expect_refused("host", ERR_NOT_FOUND, PROGRAM " does not exist");
}

Test(runtime_install, a_folder_that_cannot_be_written_is_named)
{
    if (geteuid() != 0)
        cr_skip("only root can be another user for a while");
    cr_assert_eq(chmod(".", 0755), 0);
    cr_assert_eq(seteuid(65534), 0);
    expect_refused("host", ERR_SYSTEM, "create " COPY ": Permission denied");
    cr_assert_eq(seteuid(0), 0);
}

Test(runtime_install, a_folder_that_others_may_change_gets_nothing)
{
    static const unsigned modes[] = {0775, 0757, 01777};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        cr_assert_eq(chmod("host", modes[i]), 0);
        expect_refused("host", ERR_INVALID, "lets others than root change it");
    }
    cr_expect_lt(access(COPY, F_OK), 0);
}
