/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/consumers.h"

#define UID  "3f2a1b4c-0d5e-4f60-8a71-92b3c4d5e6f7"
#define UID_ "3f2a1b4c_0d5e_4f60_8a71_92b3c4d5e6f7"
#define HASH "0123456789abcdef0123456789abcdef"
#define CID  "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"

static const struct {
    const char *text, *pod_uid, *container_id;
} pods[] = {
    {"0::/kubepods/burstable/pod" UID "/" CID "\n", UID, CID},
    {"0::/kubepods/pod" UID "/" CID "\n", UID, CID},
    {"12:pids:/kubepods/besteffort/pod" UID "/" CID "\n11:cpu:/\n", UID, CID},
    {"11:cpu:/user.slice\n12:pids:/kubepods/pod" UID "/" CID "\n", UID, CID},
    {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
     ".slice/cri-containerd-" CID ".scope\n",
     UID, CID},
    {"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" CID ".scope/container\n", UID, CID},
    {"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
     "kubelet-kubepods-besteffort-pod" UID_ ".slice/docker-" CID ".scope",
     UID, CID},
    {"1:name=systemd:/system.slice/containerd.service/kubepods-burstable-pod" UID_
     ".slice:cri-containerd:" CID "\n",
     UID, CID},
    {"0::/../../kubepods/burstable/pod" HASH "/" CID "\n", HASH, CID},
    {"0::/kubepods/burstable/pod" UID "\n", UID, ""},
};

Test(consumers, every_spelling_of_a_pod_cgroup_is_understood)
{
    for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
        struct consumer c;
        cr_assert(consumer_parse_cgroup(pods[i].text, &c), "%s", pods[i].text);
        cr_expect_str_eq(c.pod_uid, pods[i].pod_uid, "%s", pods[i].text);
        cr_expect_str_eq(c.container_id, pods[i].container_id, "%s", pods[i].text);
    }
}

Test(consumers, what_is_in_no_pod_is_told_so)
{
    static const char *const others[] = {
        "",
        "\n\n",
        "0::/\n",
        "0::/system.slice/dcgm.service\n",
        "0::/kubepods.slice\n",
        "0::/kubepods/burstable\n",
        "0::/kubepods/burstable/podman\n",
        "0::/machine/pod" UID "/" CID "\n",
        "0::/kubepods/burstable/pod" UID "0/" CID "\n",
        "0::/kubepods/burstable/pod1234/" CID "\n",
        "0::/kubepodspod",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct consumer c;
        cr_expect(!consumer_parse_cgroup(others[i], &c), "%s", others[i]);
    }
}

Test(consumers, process_is_looked_up_below_the_given_proc)
{
    char root[] = "/tmp/consumers-test-XXXXXX";
    struct consumer c;
    cr_assert(mkdtemp(root));
    auto_free char *folder = xasprintf("%s/42", root);
    auto_free char *path = xasprintf("%s/cgroup", folder);
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert_eq(file_write_atomic(path, pods[0].text, strlen(pods[0].text), 0600, NULL), 0);
    cr_expect_eq(consumer_of_pid(root, 42, &c, NULL), 0);
    cr_expect_str_eq(c.pod_uid, UID);
    cr_expect_eq(consumer_of_pid(root, 43, &c, NULL), -ERR_NOT_FOUND);
    cr_assert_eq(remove(path), 0);
    cr_assert_eq(remove(folder), 0);
    cr_assert_eq(remove(root), 0);
}
