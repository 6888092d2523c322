/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/driver_files.h"

TestSuite(driver_files, .init = folder_enter, .fini = folder_leave);

static void put_mode(const char *path, unsigned mode)
{
    auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(parent, 0755, NULL), 0);
    cr_assert_eq(file_write_atomic(path, "", 0, mode, NULL), 0);
}

static void put(const char *path)
{
    put_mode(path, 0644);
}

static const char *const kinds[] = {"library", "program", "socket", "firmware", "setting"};

static char *render(const struct driver_files *f)
{
    auto_sb struct sb out = SB_INIT(65536);
    for (size_t i = 0; i < f->n_files; i++)
        sb_addf(&out, "%s %s from %s\n", kinds[f->files[i].kind], f->files[i].container_path,
                f->files[i].host_path);
    for (size_t i = 0; i < f->n_links; i++)
        sb_addf(&out, "link %s to %s, %s\n", f->links[i].path, f->links[i].target,
                f->links[i].host_path);
    for (size_t i = 0; i < f->n_library_folders; i++)
        sb_addf(&out, "folder %s\n", f->library_folders[i]);
    return sb_take(&out);
}

static void expect(const struct driver_files_where *w, const char *found)
{
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    cr_assert_eq(driver_files_find(w, &f, &e), 0, "%s", err_msg(&e));
    auto_free char *text = render(&f);
    cr_expect_str_eq(text, found);
}

static const struct driver_files_where there = {.root = "root",
                                                .host_root = "/run/nvidia/driver",
                                                .version = "570.86.15"};

Test(driver_files, libraries_are_those_of_the_drivers_version)
{
    put("root/usr/lib64/libcuda.so.570.86.15");
    put("root/usr/lib64/libcuda.so.550.54");
    put("root/usr/lib64/libnvidia-ml.so.570.86.15");
    put("root/usr/lib64/libnvidia-egl-gbm.so.1.1.2");
    put("root/usr/lib64/libc.so.6");
    put("root/usr/lib64/vdpau/libvdpau_nvidia.so.570.86.15");
    expect(&there, "library /usr/lib64/libcuda.so.570.86.15 from "
                   "/run/nvidia/driver/usr/lib64/libcuda.so.570.86.15\n"
                   "library /usr/lib64/libnvidia-egl-gbm.so.1.1.2 from "
                   "/run/nvidia/driver/usr/lib64/libnvidia-egl-gbm.so.1.1.2\n"
                   "library /usr/lib64/libnvidia-ml.so.570.86.15 from "
                   "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.86.15\n"
                   "library /usr/lib64/vdpau/libvdpau_nvidia.so.570.86.15 from "
                   "/run/nvidia/driver/usr/lib64/vdpau/libvdpau_nvidia.so.570.86.15\n"
                   "link /usr/lib64/libcuda.so to libcuda.so.1, "
                   "/run/nvidia/driver/usr/lib64/libcuda.so.570.86.15\n"
                   "folder /usr/lib64\n"
                   "folder /usr/lib64/vdpau\n");
}

Test(driver_files, links_beside_a_library_are_its_names)
{
    put("root/usr/lib64/libnvidia-ml.so.570.86.15");
    cr_assert_eq(symlink("libnvidia-ml.so.570.86.15", "root/usr/lib64/libnvidia-ml.so.1"), 0);
    cr_assert_eq(symlink("libnvidia-ml.so.1", "root/usr/lib64/libnvidia-ml.so"), 0);
    cr_assert_eq(symlink("libc.so.6", "root/usr/lib64/libfoo.so"), 0);
    expect(&there, "library /usr/lib64/libnvidia-ml.so.570.86.15 from "
                   "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.86.15\n"
                   "link /usr/lib64/libnvidia-ml.so to libnvidia-ml.so.570.86.15, "
                   "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.86.15\n"
                   "link /usr/lib64/libnvidia-ml.so.1 to libnvidia-ml.so.570.86.15, "
                   "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.86.15\n"
                   "folder /usr/lib64\n");
}

Test(driver_files, linked_folders_count_once_under_their_own_name)
{
    put("root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15");
    cr_assert_eq(symlink("usr/lib", "root/lib"), 0);
    cr_assert_eq(symlink("/lib/x86_64-linux-gnu", "root/usr/lib64"), 0);
    expect(&there, "library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15 from "
                   "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15\n"
                   "folder /usr/lib/x86_64-linux-gnu\n");
}

Test(driver_files, folder_may_be_told)
{
    put("root/opt/driver/libcuda.so.570.86.15");
    const struct driver_files_where w = {.root = "root",
                                         .host_root = "/",
                                         .version = "570.86.15",
                                         .library_folder = "/opt/driver"};
    expect(&w, "library /opt/driver/libcuda.so.570.86.15 from "
               "/opt/driver/libcuda.so.570.86.15\n"
               "link /opt/driver/libcuda.so to libcuda.so.1, /opt/driver/libcuda.so.570.86.15\n"
               "folder /opt/driver\n");
}

Test(driver_files, programs_are_executable_and_may_be_linked)
{
    put("root/usr/lib64/libnvidia-ml.so.570.86.15");
    put_mode("root/usr/lib/nvidia/current/nvidia-smi", 0755);
    put_mode("root/usr/bin/nvidia-persistenced", 0644);
    cr_assert_eq(symlink("/usr/lib/nvidia/current/nvidia-smi", "root/usr/bin/nvidia-smi"), 0);
    auto_driver_files struct driver_files f = {0};
    cr_assert_eq(driver_files_find(&there, &f, NULL), 0);
    cr_assert_eq(f.n_files, 2);
    cr_expect_str_eq(f.files[1].container_path, "/usr/bin/nvidia-smi");
    cr_expect_str_eq(f.files[1].host_path, "/run/nvidia/driver/usr/lib/nvidia/current/nvidia-smi");
}

Test(driver_files, firmware_is_the_kernels_own_before_anyones)
{
    put("root/usr/lib64/libnvidia-ml.so.570.86.15");
    put("root/lib/firmware/nvidia/570.86.15/gsp_ga10x.bin");
    put("root/lib/firmware/6.1.0/nvidia/570.86.15/gsp_ga10x.bin");
    put("root/lib/firmware/6.1.0/nvidia/570.86.15/gsp_tu10x.bin");
    put("root/lib/firmware/6.1.0/nvidia/570.86.15/README");
    struct driver_files_where w = there;
    w.kernel_release = "6.1.0";
    expect(&w, "library /usr/lib64/libnvidia-ml.so.570.86.15 from "
               "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.86.15\n"
               "firmware /lib/firmware/6.1.0/nvidia/570.86.15/gsp_ga10x.bin from "
               "/run/nvidia/driver/lib/firmware/6.1.0/nvidia/570.86.15/gsp_ga10x.bin\n"
               "firmware /lib/firmware/6.1.0/nvidia/570.86.15/gsp_tu10x.bin from "
               "/run/nvidia/driver/lib/firmware/6.1.0/nvidia/570.86.15/gsp_tu10x.bin\n"
               "folder /usr/lib64\n");
}

/* --- What others than root may change is not there --- */

#define PERSISTENCED "/var/run/nvidia-persistenced"
#define SOMEBODY     12345

static void put_socket(const char *path)
{
    auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(parent, 0755, NULL), 0);
    cr_assert_eq(mknod(path, S_IFSOCK | 0666, 0), 0);
    cr_assert_eq(chmod(path, 0666), 0, "who may write a socket may connect to it, no more");
}

/* As /tmp: everybody makes names there, and removes only his own. */
static void put_sticky(const char *path)
{
    cr_assert_eq(file_make_dirs(path, 0755, NULL), 0);
    cr_assert_eq(chmod(path, 01777), 0);
}

/* How many sockets and folders of sockets a container would get. */
static size_t count_sockets(void)
{
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    size_t n = 0;
    put("root/usr/lib64/libnvidia-ml.so.570.86.15");
    cr_assert_eq(driver_files_find(&there, &f, &e), 0, "%s", err_msg(&e));
    for (size_t i = 0; i < f.n_files; i++)
        n += f.files[i].kind == DRIVER_SOCKET;
    return n;
}

Test(driver_files, sockets_of_the_drivers_daemons_are_found)
{
    put_socket("root/run/nvidia-persistenced/socket");
    put_socket("root/run/nvidia-fabricmanager/socket");
    cr_assert_eq(file_make_dirs("root/var", 0755, NULL), 0);
    cr_assert_eq(symlink("../run", "root/var/run"), 0);
    cr_expect_eq(count_sockets(), 2);
}

Test(driver_files, plain_file_or_folder_is_no_socket)
{
    put("root" PERSISTENCED "/socket");
    cr_assert_eq(file_make_dirs("root/var/run/nvidia-fabricmanager/socket", 0755, NULL), 0);
    cr_expect_eq(count_sockets(), 0);
}

/* The way into every container that was open: "ln -s / /tmp/nvidia-mps". */
Test(driver_files, link_in_everybodys_folder_leads_nowhere)
{
    static const char *const targets[] = {"/", "/etc", "../etc", "../../../etc", "/run"};
    put_sticky("root/tmp");
    cr_assert_eq(file_make_dirs("root/etc", 0755, NULL), 0);
    cr_assert_eq(file_make_dirs("root/run", 0755, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        cr_assert_eq(symlink(targets[i], "root/tmp/nvidia-mps"), 0);
        cr_expect_eq(count_sockets(), 0, "%s", targets[i]);
        cr_assert_eq(unlink("root/tmp/nvidia-mps"), 0);
    }
    cr_assert_eq(file_make_dirs("root/tmp/nvidia-mps", 0755, NULL), 0);
    cr_expect_eq(count_sockets(), 0, "its name may lead elsewhere by the time of a mount");
}

Test(driver_files, nothing_is_found_through_a_folder_that_others_write)
{
    put_sticky("root/tmp");
    put_socket("root/tmp/mine/socket");
    cr_assert_eq(file_make_dirs("root/var/run", 0755, NULL), 0);
    cr_assert_eq(symlink("/tmp/mine", "root" PERSISTENCED), 0);
    cr_expect_eq(count_sockets(), 0);
    cr_assert_eq(chmod("root/tmp", 0755), 0);
    cr_expect_eq(count_sockets(), 1, "root's alone, it is found");
    cr_assert_eq(chmod("root/tmp/mine", 0775), 0);
    cr_expect_eq(count_sockets(), 0, "a group's");
}

Test(driver_files, nothing_of_a_users_is_found)
{
    if (geteuid() != 0)
        cr_skip_test("only root can make what belongs to somebody else");
    put_socket("root" PERSISTENCED "/socket");
    put_socket("root/secret");
    cr_assert_eq(count_sockets(), 1);
    cr_assert_eq(lchown("root" PERSISTENCED "/socket", SOMEBODY, 0), 0);
    cr_expect_eq(count_sockets(), 0, "the socket");
    cr_assert_eq(unlink("root" PERSISTENCED "/socket"), 0);
    cr_assert_eq(symlink("/secret", "root" PERSISTENCED "/socket"), 0);
    cr_expect_eq(count_sockets(), 1, "root's link");
    cr_assert_eq(lchown("root" PERSISTENCED "/socket", SOMEBODY, 0), 0);
    cr_expect_eq(count_sockets(), 0, "a user's link to a socket of root's");
    cr_assert_eq(lchown("root" PERSISTENCED "/socket", 0, 0), 0);
    cr_assert_eq(lchown("root" PERSISTENCED, SOMEBODY, 0), 0);
    cr_expect_eq(count_sockets(), 0, "the folder");
}

Test(driver_files, library_that_others_may_write_is_none)
{
    put("root/usr/lib64/libcuda.so.570.86.15");
    put_mode("root/usr/lib64/libnvidia-ml.so.570.86.15", 0644);
    cr_assert_eq(chmod("root/usr/lib64/libnvidia-ml.so.570.86.15", 0646), 0);
    auto_driver_files struct driver_files f = {0};
    cr_assert_eq(driver_files_find(&there, &f, NULL), 0);
    cr_assert_eq(f.n_files, 1);
    cr_expect_str_eq(f.files[0].container_path, "/usr/lib64/libcuda.so.570.86.15");
}

Test(driver_files, folder_of_libraries_that_others_may_write_is_told)
{
    put("root/usr/lib64/libcuda.so.570.86.15");
    cr_assert_eq(chmod("root/usr/lib64", 0777), 0);
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    cr_assert_eq(driver_files_find(&there, &f, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), "root/usr/lib64/libcuda.so.570.86.15 cannot be "
                                           "taken: root/usr/lib64 is not used: its mode 0777"),
                       "%s", err_msg(&e));
}

/* The link's target is meant below the root, where it is. */
Test(driver_files, part_behind_a_link_is_told)
{
    put("root/mine/libcuda.so.570.86.15");
    cr_assert_eq(file_make_dirs("root/usr", 0755, NULL), 0);
    cr_assert_eq(symlink("/mine", "root/usr/lib64"), 0);
    cr_assert_eq(chmod("root/mine", 0777), 0);
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    cr_assert_eq(driver_files_find(&there, &f, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), "root/usr/lib64/libcuda.so.570.86.15 cannot be "
                                           "taken: root/mine is not used: its mode 0777"),
                       "%s", err_msg(&e));
}

/* A folder that comes first and has nothing of the driver's is not why there is no driver. */
Test(driver_files, folder_without_parts_is_not_told)
{
    cr_assert_eq(file_make_dirs("root/usr/lib64", 0755, NULL), 0);
    cr_assert_eq(chmod("root/usr/lib64", 0777), 0);
    put("root/lib64/libnvidia-ml.so.570.86.15");
    cr_assert_eq(chmod("root/lib64/libnvidia-ml.so.570.86.15", 0666), 0);
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    cr_assert_eq(driver_files_find(&there, &f, &e), -ERR_NOT_FOUND);
    cr_expect_null(strstr(err_msg(&e), "0777"), "%s", err_msg(&e));
    cr_expect_not_null(strstr(err_msg(&e), "root/lib64/libnvidia-ml.so.570.86.15 cannot be taken"),
                       "%s", err_msg(&e));
}

Test(driver_files, settings_of_vulkan_belong_below_etc)
{
    put("root/usr/lib64/libnvidia-ml.so.570.86.15");
    put("root/usr/share/glvnd/egl_vendor.d/10_nvidia.json");
    put("root/vulkan/icd.d/nvidia_icd.json");
    expect(&there, "library /usr/lib64/libnvidia-ml.so.570.86.15 from "
                   "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.570.86.15\n"
                   "setting /usr/share/glvnd/egl_vendor.d/10_nvidia.json from "
                   "/run/nvidia/driver/usr/share/glvnd/egl_vendor.d/10_nvidia.json\n"
                   "setting /etc/vulkan/icd.d/nvidia_icd.json from "
                   "/run/nvidia/driver/vulkan/icd.d/nvidia_icd.json\n"
                   "folder /usr/lib64\n");
}

Test(driver_files, missing_driver_is_told_with_the_folders)
{
    put("root/usr/lib64/libcuda.so.550.54");
    auto_driver_files struct driver_files f = {0};
    auto_err struct err e = {0};
    cr_assert_eq(driver_files_find(&there, &f, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), "libcuda.so.570.86.15"));
    cr_expect_not_null(strstr(err_msg(&e), "/usr/lib64"));
}

static const char *const no_versions[] = {"", "570*", "../570", "570/1", ".570", "570.86 "};

Test(driver_files, version_is_digits_and_dots)
{
    for (size_t i = 0; i < ARRAY_LEN(no_versions); i++) {
        struct driver_files_where w = there;
        auto_driver_files struct driver_files f = {0};
        w.version = no_versions[i];
        cr_expect_eq(driver_files_find(&w, &f, NULL), -ERR_INVALID, "%s", no_versions[i]);
    }
}

Test(driver_files, thousand_libraries_are_too_many)
{
    for (size_t i = 0; i < 1025; i++) {
        auto_free char *path = xasprintf("root/usr/lib64/libx%zu.so.570.86.15", i);
        put(path);
    }
    put("root/usr/lib64/libcuda.so.570.86.15");
    auto_driver_files struct driver_files f = {0};
    cr_expect_eq(driver_files_find(&there, &f, NULL), -ERR_TOO_LARGE);
}
