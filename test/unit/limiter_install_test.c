/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/commands/limiter_install.h"
#include "nodeagent/slots/limiter_files.h"

/* "image" has the limiter as the agent's image has it; "host/lib" is the folder of the host. */

#define CUDA "libcleave-cuda.so"
#define NVML "libcleave-nvml.so"

static struct cdi_slots *cdi;

static void put(const char *path, const char *text)
{
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0, "%s", path);
}

static void put_version(const char *text)
{
    put("image/" CUDA, text);
    put("image/" NVML, "nvml");
}

static void enter(void)
{
    folder_enter();
    cr_assert_eq(mkdir("image", 0755), 0);
    cr_assert_eq(mkdir("host", 0755), 0);
    cr_assert_eq(mkdir("cdi", 0755), 0);
    put_version("version 1");
    cdi = cdi_slots_new(&(struct cdi_options){.folder = "cdi"});
}

static void leave(void)
{
    cdi = cdi_slots_free(cdi);
    folder_leave();
}

TestSuite(limiter_install, .init = enter, .fini = leave);

/* Caller frees. */
static char *install(void)
{
    auto_err struct err e = {0};
    char *folder = NULL;
    mode_t mask = umask(0077);
    cr_assert_eq(limiter_install("image", "host/lib", &folder, &e), 0, "%s", err_msg(&e));
    (void)umask(mask);
    cr_assert_not_null(folder);
    return folder;
}

static struct stat look(const char *folder, const char *name)
{
    struct stat st;
    auto_free char *path = xasprintf("%s/%s", folder, name);
    cr_assert_eq(lstat(path, &st), 0, "%s", path);
    return st;
}

static size_t versions(void)
{
    auto_dir DIR *dir = opendir("host/lib");
    size_t n = 0;
    cr_assert_not_null(dir);
    while (readdir(dir))
        n++;
    return n - 2;
}

Test(limiter_install, each_version_lies_in_a_folder_named_by_its_content)
{
    auto_free char *first = install();
    cr_expect(strncmp(first, "host/lib/", 9) == 0 && strlen(first) == 9 + LIMITER_NAME_BYTES - 1 &&
                  strspn(first + 9, "0123456789abcdef") == LIMITER_NAME_BYTES - 1,
              "%s", first);
    cr_expect_eq(look(first, CUDA).st_mode & 07777U, 0644);
    cr_expect_eq(look(first, NVML).st_mode & 07777U, 0644);
    put_version("version 2");
    auto_free char *second = install();
    cr_expect_str_neq(first, second);
    auto_free char *path = xasprintf("%s/" CUDA, first);
    auto_free char *text = NULL;
    cr_assert_eq(file_read(path, 100, &text, NULL, NULL), 0);
    cr_expect_str_eq(text, "version 1", "containers have it mounted");
}

Test(limiter_install, what_is_there_is_left_alone_and_what_is_half_there_is_completed)
{
    auto_free char *first = install();
    ino_t cuda = look(first, CUDA).st_ino;
    auto_free char *nvml = xasprintf("%s/" NVML, first);
    cr_assert_eq(unlink(nvml), 0);
    auto_free char *again = install();
    cr_expect_str_eq(first, again);
    cr_expect_eq(look(first, CUDA).st_ino, cuda);
    (void)look(first, NVML);
}

Test(limiter_install, an_image_without_a_limiter_has_none_to_install)
{
    auto_err struct err e = {0};
    char *folder = NULL;
    cr_expect_eq(limiter_install("nowhere", "host/lib", &folder, &e), 0, "%s", err_msg(&e));
    cr_expect_null(folder);
    cr_expect_neq(access("host/lib", F_OK), 0);
}

Test(limiter_install, half_a_limiter_is_none)
{
    auto_err struct err e = {0};
    char *folder = NULL;
    cr_assert_eq(unlink("image/" NVML), 0);
    cr_expect_eq(limiter_install("image", "host/lib", &folder, &e), -ERR_NOT_FOUND);
    cr_expect(strstr(err_msg(&e), NVML), "%s", err_msg(&e));
    cr_expect_null(folder);
}

/* Containers run what lies there. */
Test(limiter_install, a_folder_that_others_may_change_is_refused)
{
    auto_err struct err e = {0};
    char *unused = NULL;
    auto_free char *folder = install();
    cr_assert_eq(chmod(folder, 0777), 0);
    cr_expect_eq(limiter_install("image", "host/lib", &unused, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "lets others than root change it"), "%s", err_msg(&e));
}

/* --- Old versions --- */

static void put_spec(const char *name, const char *folder)
{
    auto_free char *path = xasprintf("cdi/%s.gpu.cleave.dev-nvidia-slot.json", name);
    auto_free char *text = xasprintf("{\"hostPath\":\"/%s/" CUDA "\"}", folder);
    put(path, text);
}

Test(limiter_install, a_version_goes_when_no_container_has_it_any_more)
{
    auto_free char *first = install();
    put_version("version 2");
    auto_free char *second = install();
    put_version("version 3");
    auto_free char *third = install();
    put_spec("share.3", first);
    put_spec("share.4", third);
    cr_assert_eq(mkdir("host/lib/others", 0755), 0);
    limiter_files_sweep(third, cdi);
    cr_expect_eq(access(first, F_OK), 0);
    cr_expect_neq(access(second, F_OK), 0);
    cr_expect_eq(access(third, F_OK), 0);
    cr_assert_eq(cdi_slots_remove(cdi, "share.3", NULL), 0);
    limiter_files_sweep(third, cdi);
    cr_expect_neq(access(first, F_OK), 0);
    cr_expect_eq(versions(), 2, "the newest, and what is no version");
}

Test(limiter_install, while_it_cannot_be_said_who_has_which_version_all_stay)
{
    auto_free char *first = install();
    put_version("version 2");
    auto_free char *second = install();
    cr_assert_eq(mkdir("cdi/share.3.gpu.cleave.dev-nvidia-slot.json", 0755), 0);
    limiter_files_sweep(second, cdi);
    cr_expect_eq(access(first, F_OK), 0);
}
