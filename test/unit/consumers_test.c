/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/consumers.h"

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
    /* kind's kubelet is told to use /kubelet */
    {"0::/kubelet/kubepods/besteffort/pod" UID "/" CID "\n", UID, CID},
    /* the container made a cgroup of its own, or is being removed */
    {"0::/kubepods/pod" UID "/" CID "/init.scope\n", UID, CID},
    {"0::/kubepods/pod" UID "/" CID " (deleted)\n", UID, CID},
};

Test(consumers, every_spelling_of_a_pod_cgroup_is_understood)
{
    for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
        struct consumer c;
        cr_assert(consumer_parse_cgroup(pods[i].text, /* own_text= */ NULL, &c), "%s",
                  pods[i].text);
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
        cr_expect(!consumer_parse_cgroup(others[i], NULL, &c), "%s", others[i]);
    }
}

/* As a reader sees it who is in a container with a cgroup namespace of its own. */
static const struct {
    const char *text, *pod_uid;
} beside_us[] = {
    /* cgroupfs driver; we are burstable, the other is burstable, besteffort, guaranteed */
    {"0::/../../pod" UID "/" CID "\n", UID},
    {"0::/../../../besteffort/pod" UID "/" CID "\n", UID},
    {"0::/../../../pod" UID "/" CID "\n", UID},
    /* we are guaranteed */
    {"0::/../../burstable/pod" UID "/" CID "\n", UID},
    /* as the review of this file found them missing */
    {"0::/../../../burstable/pod" UID "/" CID "/app\n", UID},
    {"12:devices:/../../pod" HASH "/" CID "\n0::/\n", HASH},
    /* systemd driver, the same */
    {"0::/../../kubepods-burstable-pod" UID_ ".slice/cri-containerd-" CID ".scope\n", UID},
    {"0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" CID
     ".scope\n",
     UID},
    {"0::/../../../kubepods-pod" UID_ ".slice/cri-containerd-" CID ".scope\n", UID},
    /* crun puts a folder below the scope; kind has slices of its own */
    {"0::/../../../kubelet-kubepods-burstable-pod" UID_ ".slice/crio-" CID ".scope/container\n",
     UID},
    {"0::/../../../../kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" UID_
     ".slice/crio-" CID ".scope/container\n",
     UID},
    /* we are in a container that is no pod's */
    {"0::/../../kubepods/burstable/pod" UID "/" CID "\n", UID},
    {"0::/../../kubepods.slice/kubepods-pod" UID_ ".slice/crio-" CID ".scope\n", UID},
};

Test(consumers, pods_beside_ours_are_known_from_a_cgroup_namespace)
{
    for (size_t i = 0; i < ARRAY_LEN(beside_us); i++) {
        struct consumer c = {0};
        cr_expect(consumer_parse_cgroup(beside_us[i].text, "0::/\n", &c), "%s", beside_us[i].text);
        cr_expect_str_eq(c.pod_uid, beside_us[i].pod_uid, "%s", beside_us[i].text);
        cr_expect_str_eq(c.container_id, CID, "%s", beside_us[i].text);
    }
}

#define SESSION "/user.slice/user-1000.slice/user@1000.service"
#define VICTIM  "11111111-2222-3333-4444-555555555555"
#define VICTIM_ "11111111_2222_3333_4444_555555555555"

/* systemd leaves a user's session its own cgroup, runtimes leave one to containers that may write
 * it; any name can be made there. */
Test(consumers, cgroup_that_only_looks_like_a_pods_is_none)
{
    static const char *const forged[] = {
        "0::" SESSION "/kubepods/burstable/pod" VICTIM "/" CID,
        "0::" SESSION "/kubepods.slice/kubepods-pod" VICTIM_ ".slice/crio-" CID ".scope",
        "0::" SESSION "/app.slice/kubepods-pod" VICTIM_ ".slice/crio-" CID ".scope",
        "0::" SESSION "/system.slice/containerd.service/kubepods-pod" VICTIM_
        ".slice:cri-containerd:" CID,
        "1:name=systemd:" SESSION "/kubepods/pod" VICTIM "/" CID,
        "0::/lxc.payload.guest/kubepods/pod" VICTIM "/" CID,
        "0::/docker/" CID "/kubepods/pod" VICTIM,
        "0::/docker/" CID "/kubelet/kubepods/pod" VICTIM,
        "0::/system.slice/docker-" CID ".scope/kubepods/pod" VICTIM,
        "0::/system.slice/docker-" CID ".scope/kubelet.slice/kubelet-kubepods.slice/"
        "kubelet-kubepods-pod" VICTIM_ ".slice/crio-" CID ".scope",
        "0::/user.slice/kubepods-pod" VICTIM_ ".slice/crio-" CID ".scope",
        "0::/kubepods-pod" VICTIM_ ".slice/crio-" CID ".scope",
        /* seen from a cgroup namespace */
        "0::/../../../.." SESSION "/kubepods/burstable/pod" VICTIM "/" CID,
        "0::/../../../.." SESSION "/pod" VICTIM "/" CID,
        "0::/../../../../lxc.payload.guest/burstable/pod" VICTIM "/" CID,
        "0::/../../../../system.slice/docker-" CID ".scope/kubepods.slice/kubepods-pod" VICTIM_
        ".slice/crio-" CID ".scope",
        /* below our own container, and in our own pod */
        "0::/pod" VICTIM "/" CID,
        "0::/burstable/pod" VICTIM "/" CID,
        "0::/kubepods-pod" VICTIM_ ".slice",
        "0::/../" CID "/pod" VICTIM,
        "0::/../pod" VICTIM "/" CID,
    };
    for (size_t i = 0; i < ARRAY_LEN(forged); i++) {
        struct consumer c;
        cr_expect(!consumer_parse_cgroup(forged[i], NULL, &c), "%s", forged[i]);
        cr_expect(!consumer_parse_cgroup(forged[i], "0::/\n", &c), "%s", forged[i]);
    }
}

/* A container that may make cgroups makes them below its own. */
Test(consumers, container_cannot_pass_for_another_pod)
{
    static const char *const inside[] = {
        "0::/kubepods/burstable/pod" UID "/" CID "/kubepods/burstable/pod" VICTIM "/" CID,
        "0::/kubepods/burstable/pod" UID "/" CID "/pod" VICTIM,
        "0::/../../pod" UID "/" CID "/../pod" VICTIM,
        "0::/../../pod" UID "/" CID "/kubepods/pod" VICTIM,
        "0::/../../kubepods-pod" UID_ ".slice/crio-" CID ".scope/kubepods-pod" VICTIM_ ".slice",
        "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" CID
        ".scope/kubepods.slice/kubepods-pod" VICTIM_ ".slice",
    };
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        struct consumer c = {0};
        cr_expect(consumer_parse_cgroup(inside[i], NULL, &c), "%s", inside[i]);
        cr_expect_str_eq(c.pod_uid, UID, "%s", inside[i]);
    }
}

/* A kubelet that was given a cgroup root of its own (kind with cgroup v1), and an agent that sees
 * the whole path. */
Test(consumers, pods_lie_where_our_own_pod_lies)
{
    static const char own[] =
        "11:cpu:/docker/" CID "/kubelet/kubepods/pod" HASH "/" CID "\n0::/docker/" CID "\n";
    static const char slices[] = "0::/docker/" CID "/kubelet.slice/kubelet-kubepods.slice/"
                                 "kubelet-kubepods-pod" HASH ".slice/crio-" CID ".scope\n";
    struct consumer c = {0};
    cr_expect(consumer_parse_cgroup("11:cpu:/docker/" CID "/kubelet/kubepods/burstable/pod" UID
                                    "/" CID "\n",
                                    own, &c));
    cr_expect_str_eq(c.pod_uid, UID);
    cr_expect(!consumer_parse_cgroup("11:cpu:/kubepods/burstable/pod" UID "/" CID "\n", own, &c),
              "a kubelet's beside it");
    cr_expect(!consumer_parse_cgroup("11:cpu:/docker/" CID "/kubepods/pod" UID "\n", own, &c));
    cr_expect(consumer_parse_cgroup("0::/docker/" CID "/kubelet.slice/kubelet-kubepods.slice/"
                                    "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-"
                                    "pod" UID_ ".slice/crio-" CID ".scope",
                                    slices, &c));
    cr_expect_str_eq(c.pod_uid, UID);
    cr_expect(!consumer_parse_cgroup("0::" SESSION "/kubelet.slice/kubelet-kubepods.slice/"
                                     "kubelet-kubepods-pod" VICTIM_ ".slice/x",
                                     slices, &c));
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
