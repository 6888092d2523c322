/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/slots/pod_cgroup.h"

#define UID     "7f1c2a9e-0b3d-4c55-9a77-1d2e3f405162"
#define IN_UNIT "7f1c2a9e_0b3d_4c55_9a77_1d2e3f405162"

TestSuite(pod_cgroup, .init = folder_enter, .fini = folder_leave);

static void folder(const char *path)
{
    cr_assert_eq(file_make_dirs(path, 0755, NULL), 0, "%s", path);
}

static void finds(const char *root, const char *path)
{
    auto_err struct err e = {0};
    auto_free char *found = NULL;
    cr_assert_eq(pod_cgroup_find(root, UID, &found, &e), 0, "%s: %s", path, err_msg(&e));
    cr_expect_str_eq(found, path);
    auto_free char *uid = pod_cgroup_uid(found);
    cr_expect(uid && strcmp(uid, UID) == 0, "%s", path);
}

Test(pod_cgroup, it_is_found_under_the_names_of_both_drivers_in_each_class)
{
    static const char *const paths[] = {
        "kubepods.slice/kubepods-pod" IN_UNIT ".slice",
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" IN_UNIT ".slice",
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" IN_UNIT ".slice",
        "kubepods/pod" UID,
        "kubepods/burstable/pod" UID,
        "kubepods/besteffort/pod" UID,
    };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        auto_free char *root = xasprintf("root%zu", i);
        auto_free char *path = xasprintf("%s/%s", root, paths[i]);
        folder(path);
        finds(root, path);
    }
}

Test(pod_cgroup, below_a_slice_its_name_is_repeated)
{
    folder("a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod" IN_UNIT ".slice");
    finds("a.slice/a-b.slice",
          "a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod" IN_UNIT ".slice");
    auto_free char *found = NULL;
    cr_expect_eq(pod_cgroup_find("a.slice/a-b.slice///", UID, &found, NULL), 0);
    auto_free char *top = NULL;
    cr_assert_eq(pod_cgroups_top("a.slice/a-b.slice", &top, NULL), 0);
    cr_expect_str_eq(top, "a.slice/a-b.slice/a-b-kubepods.slice");
}

Test(pod_cgroup, one_that_is_not_there_is_not_found)
{
    auto_err struct err e = {0};
    char *found = NULL;
    folder("root/kubepods.slice/kubepods-podother.slice");
    cr_expect_eq(pod_cgroup_find("root", UID, &found, &e), -ERR_NOT_FOUND);
    cr_expect(!found && strstr(err_msg(&e), "below root"), "%s", err_msg(&e));
    cr_expect_eq(pod_cgroups_top("nowhere", &found, NULL), -ERR_NOT_FOUND);
    cr_assert_eq(file_write_atomic("root/kubepods.slice/kubepods-pod" IN_UNIT ".slice", "", 0, 0644,
                                   NULL),
                 0);
    cr_expect_eq(pod_cgroup_find("root", UID, &found, NULL), -ERR_NOT_FOUND, "a file is none");
}

Test(pod_cgroup, what_is_no_uid_names_no_folder)
{
    char *found = NULL;
    static const char *const wrong[] = {"", "..", "a/b", "../../etc", "a b", "\xc3\xa9"};
    folder("root/kubepods/pod..");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        cr_expect_eq(pod_cgroup_find("root", wrong[i], &found, NULL), -ERR_INVALID, "%s", wrong[i]);
    char longer[200];
    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    cr_expect_eq(pod_cgroup_find("root", longer, &found, NULL), -ERR_INVALID);
    static const char *const not_pods[] = {"/x/kubepods.slice",
                                           "/x/kubepods-burstable.slice",
                                           "/x/burstable",
                                           "/x/cri-containerd-1.scope",
                                           "",
                                           "/x/pod",
                                           "/x/kubepods-pod.slice"};
    for (size_t i = 0; i < ARRAY_LEN(not_pods); i++)
        cr_expect_null(pod_cgroup_uid(not_pods[i]), "%s", not_pods[i]);
}

Test(pod_cgroup, a_path_beyond_4096_bytes_is_refused)
{
    auto_err struct err e = {0};
    char *found = NULL;
    char root[5000];
    memset(root, 'r', sizeof(root));
    root[0] = '/';
    root[sizeof(root) - 1] = '\0';
    cr_expect_eq(pod_cgroup_find(root, UID, &found, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "too long"), "%s", err_msg(&e));
}

Test(pod_cgroup, the_folders_of_pods_are_those_that_are_there)
{
    char **parents = NULL;
    size_t n = 0;
    pod_cgroups_parents("root", &parents, &n);
    cr_expect_eq(n, 0);
    folder("root/kubepods.slice/kubepods-besteffort.slice");
    folder("root/kubepods/burstable");
    pod_cgroups_parents("root", &parents, &n);
    static const char *const expected[] = {"root/kubepods.slice",
                                           "root/kubepods.slice/kubepods-besteffort.slice",
                                           "root/kubepods", "root/kubepods/burstable"};
    cr_assert_eq(n, ARRAY_LEN(expected));
    for (size_t i = 0; i < n; i++) {
        cr_expect_str_eq(parents[i], expected[i]);
        free(parents[i]);
    }
    free(parents);
}

Test(pod_cgroup, only_version_2_alone_counts)
{
    folder("hybrid/unified");
    cr_assert_eq(file_write_atomic("hybrid/unified/cgroup.controllers", "", 0, 0644, NULL), 0);
    cr_expect_not(pod_cgroups_are_v2("hybrid"));
    cr_expect(pod_cgroups_are_v2("hybrid/unified"));
}
