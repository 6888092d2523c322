/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"

/* Each test runs in a process of its own: a fresh folder becomes the working directory. */
TestSuite(file, .init = folder_enter, .fini = folder_leave);

static size_t count_entries(void)
{
    DIR *dir = opendir(".");
    size_t count = 0;
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count - 2;
}

static void expect_content(const char *path, const char *want)
{
    auto_free char *text = NULL;
    size_t len = 0;
    auto_err struct err e = {0};
    cr_assert_eq(file_read(path, 100, &text, &len, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(text, want);
    cr_expect_eq(len, strlen(want));
}

Test(file, reads_back_what_was_written)
{
    cr_assert_eq(file_write_atomic("f", "hello", 5, 0600, NULL), 0);
    expect_content("f", "hello");
    struct stat st;
    cr_assert_eq(stat("f", &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    cr_expect_eq(count_entries(), 1, "no temporary file is left");
}

Test(file, reads_the_head_of_a_file_or_all_of_a_shorter_one)
{
    char head[4];
    auto_err struct err e = {0};
    cr_assert_eq(file_write_atomic("f", "abcd", 4, 0600, NULL), 0);
    cr_assert_eq(file_read_head("f", head, sizeof(head), &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(head, "abc");
    cr_assert_eq(file_write_atomic("f", "a", 1, 0600, NULL), 0);
    cr_assert_eq(file_read_head("f", head, sizeof(head), &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(head, "a");
    cr_expect_eq(file_read_head("none", head, sizeof(head), &e), -ERR_NOT_FOUND);
}

Test(file, replaces_the_old_content_and_its_mode)
{
    cr_assert_eq(file_write_atomic("f", "a longer text", 13, 0600, NULL), 0);
    cr_assert_eq(file_write_atomic("f", "", 0, 0644, NULL), 0);
    expect_content("f", "");
    cr_expect_eq(count_entries(), 1);
}

Test(file, tells_a_missing_file_from_an_unreadable_one)
{
    char *text = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(file_read("none", 10, &text, NULL, &e), -ERR_NOT_FOUND);
    cr_expect_str_eq(err_msg(&e), "none does not exist");
    cr_expect_eq(file_read(".", 10, &text, NULL, &e), -ERR_SYSTEM);
    cr_expect_eq(e.sys_errno, EISDIR);
    cr_expect_null(text);
}

Test(file, refuses_to_read_more_than_allowed)
{
    cr_assert_eq(file_write_atomic("f", "0123456789", 10, 0600, NULL), 0);
    auto_free char *text = NULL;
    auto_err struct err e = {0};
    cr_expect_eq(file_read("f", 9, &text, NULL, &e), -ERR_TOO_LARGE);
    cr_expect_null(text);
    cr_expect_eq(file_read("f", 10, &text, NULL, &e), 0);
}

Test(file, does_not_read_on_without_an_end)
{
    char *text = NULL;
    cr_expect_eq(file_read("/dev/zero", 100000, &text, NULL, NULL), -ERR_TOO_LARGE);
    cr_expect_null(text);
}

Test(file, reads_files_that_tell_no_size)
{
    auto_free char *text = NULL;
    size_t len = 0;
    cr_assert_eq(file_read("/proc/self/status", 1 << 20, &text, &len, NULL), 0);
    cr_expect_gt(len, 100);
}

Test(file, reads_standard_input)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    cr_assert_eq(write(ends[1], "from a pipe", 11), 11);
    (void)close(ends[1]);
    (void)close(ends[0]);
    expect_content("-", "from a pipe");
    cr_expect_eq(fcntl(STDIN_FILENO, F_GETFD), 0, "standard input stays open");
}

/* The disk is full: the write fails half-way. */
Test(file, keeps_the_old_content_when_writing_fails)
{
    cr_assert_eq(file_write_atomic("f", "old", 3, 0600, NULL), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE,
                           &(struct rlimit){.rlim_cur = 4, .rlim_max = RLIM_INFINITY}),
                 0);
    auto_err struct err e = {0};
    int rc = file_write_atomic("f", "new content", 11, 0600, &e);
    int saved_errno = e.sys_errno;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
    cr_expect_eq(rc, -ERR_SYSTEM);
    cr_expect_eq(saved_errno, EFBIG);
    expect_content("f", "old");
    cr_expect_eq(count_entries(), 1);
}

Test(file, fails_when_the_folder_is_missing_or_the_target_is_a_folder)
{
    auto_err struct err e = {0};
    cr_expect_eq(file_write_atomic("no/f", "x", 1, 0600, &e), -ERR_SYSTEM);
    cr_expect_eq(e.sys_errno, ENOENT);
    cr_assert_eq(mkdir("d", 0700), 0);
    cr_expect_eq(file_write_atomic("d", "x", 1, 0600, &e), -ERR_SYSTEM);
    cr_expect_eq(count_entries(), 1);
}

Test(file, removing_twice_is_no_error)
{
    cr_assert_eq(file_write_atomic("f", "x", 1, 0600, NULL), 0);
    cr_expect_eq(file_remove("f", NULL), 0);
    cr_expect_eq(file_remove("f", NULL), 0);
    cr_expect_eq(count_entries(), 0);
    cr_assert_eq(mkdir("d", 0700), 0);
    cr_expect_eq(file_remove("d", NULL), -ERR_SYSTEM);
}

Test(file, makes_folders_on_the_way)
{
    auto_err struct err e = {0};
    cr_expect_eq(file_make_dirs("a/b//c/", 0700, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(file_make_dirs("a/b/c", 0700, &e), 0);
    cr_expect_eq(file_write_atomic("a/b/c/f", "x", 1, 0600, NULL), 0);
    cr_expect_eq(file_make_dirs("a/b/c/f", 0700, &e), -ERR_SYSTEM);
    cr_expect_eq(file_make_dirs("a/b/c/f/g", 0700, &e), -ERR_SYSTEM);
    auto_free char *absolute = xasprintf("%s/x/y", folder_path());
    cr_expect_eq(file_make_dirs(absolute, 0700, &e), 0);
    cr_expect_eq(file_make_dirs("", 0700, &e), -ERR_SYSTEM);
}

static void put(const char *path)
{
    cr_assert_eq(file_write_atomic(path, "x", 1, 0600, NULL), 0);
}

Test(file, sweeps_its_own_temporary_files_and_nothing_else)
{
    static const char *const kept[] = {"a.json",
                                       "a.json.tmp",
                                       "a.json.0123456789abcde.tmp",
                                       "a.json.0123456789abcdeX.tmp",
                                       "a.yaml.0123456789abcdef.tmp",
                                       ".json.0123456789abcdef.tmp",
                                       "a.json.0123456789abcdef.tmp2",
                                       "a.json.bad-1"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        put(kept[i]);
    put("a.json.0123456789abcdef.tmp");
    put("GPU-1.json.ffffffffffffffff.tmp");
    size_t n = 0;
    cr_assert_eq(file_sweep(".", ".json", &n, NULL), 0);
    cr_expect_eq(n, 2);
    cr_expect_eq(count_entries(), ARRAY_LEN(kept));
    cr_assert_eq(file_sweep(".", ".json", &n, NULL), 0);
    cr_expect_eq(n, 0);
    cr_expect_eq(file_sweep("./none", ".json", &n, NULL), 0);
}

/* What file_write_atomic leaves when it is killed is what file_sweep looks for. */
Test(file, sweeps_what_a_killed_writer_leaves)
{
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit small = {.rlim_cur = 10, .rlim_max = 10};
        (void)signal(SIGXFSZ, SIG_DFL); /* kills in the middle of the write */
        (void)setrlimit(RLIMIT_FSIZE, &small);
        (void)!file_write_atomic("b.json", "more than ten bytes", 19, 0600, NULL);
        _exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    cr_assert_eq(count_entries(), 1);
    size_t n = 0;
    cr_assert_eq(file_sweep(".", ".json", &n, NULL), 0);
    cr_expect_eq(n, 1);
    cr_expect_eq(count_entries(), 0);
}
