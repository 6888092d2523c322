# SPDX-License-Identifier: Apache-2.0
"""Pods get partitions: our agent on a node with a real kubelet, containerd and runc.

After the main story, what Kubernetes asks of every device plugin in its own tests of nodes
(test/e2e_node/device_plugin_test.go of k8s.io/kubernetes v1.34.4): the kubelet, the plugin, both
or the whole node start anew, and who has a device keeps it.
"""

import signal

import pytest
from conftest import wait_for
from kubelet_rig import HALF, SAID_ALL, SMALL, halves, real_cluster, real_node, real_rig  # noqa: F401
from stack import condition, mig

GPU = "nvidia.com/gpu"
CDI_KIND = "gpu.cleave.dev/nvidia"
LOOK = f"find /dev -name 'nvidia*' -type c | sort; env | grep NVIDIA; echo {SAID_ALL}"


def held(node, pod):
    """The device ids that the kubelet gave a pod."""
    uid = node.uid(pod)
    return [i for (pod_uid, _, _), ids in node.checkpoint().items() if pod_uid == uid for i in ids]


def device_files(node, device_id):
    """The files that the CDI spec names for a device of the kubelet's; None while it has no such device."""
    uuid, _, slice_ = device_id.partition("/")
    profile, _, place = slice_.partition("@")
    name = f"{uuid}-{profile}-{place.replace('.', '-')}" if slice_ else uuid
    specs = [s for s in node.cdi_specs().values() if s["kind"] == CDI_KIND]
    entry = next((d for s in specs for d in s["devices"] if d["name"] == name), None)
    if not entry:
        return None
    shared = [n["path"] for s in specs for n in s.get("containerEdits", {}).get("deviceNodes", [])]
    return sorted([n["path"] for n in entry["containerEdits"]["deviceNodes"]] + shared)


def restart_container(node, pod):
    """Ends the pod's container, and waits until the kubelet has started it again."""
    before = node.container(pod)["restartCount"]
    volume = node.kubelet_dir / "pods" / node.uid(pod) / "volumes" / "kubernetes.io~empty-dir" / "data"
    (volume / "end").touch()
    wait_for(lambda: node.container(pod)["restartCount"] > before and node.container(pod)["ready"], 60, lambda: f"a restart: {node.why(pod)}")


def wait_runs(node, limits):
    """Until a pod that wants this runs to its end. A kubelet that has just started counts what ended meanwhile as held for a moment."""

    def tried():
        pod = node.wait_phase(node.run("try", "true", limits), "Succeeded", "Failed")
        assert pod["status"]["phase"] == "Succeeded" or pod["status"]["reason"] == "UnexpectedAdmissionError", pod["status"]
        return pod["status"]["phase"] == "Succeeded"

    wait_for(tried, 60, f"a pod with {limits} to run")


def worker(node, limits, name="worker", look=LOOK):
    """A pod that says what it sees and runs until its container is to be restarted."""
    command = f"trap 'exit 0' TERM; {look}; while [ ! -e /data/end ]; do sleep 0.1; done; rm /data/end; exit 1"
    volumes = [{"name": "data", "emptyDir": {}}]
    container = {"name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", command]}
    container |= {"resources": {"limits": limits}, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pod = node.run(name, command, limits, "Always", volumes=volumes, containers=[container])
    node.wait_phase(pod, "Running")
    return pod


def assert_sees_its_own(node, pod):
    (device,) = held(node, pod)
    files = [line for line in node.said(pod) if line.startswith("/dev/")]
    assert files == device_files(node, device)
    return device


def evict(node):
    """Has a controller ask for seven small partitions, whoever is in the way."""
    node.rig.controller()
    return node.rig.profile(
        "evict",
        {"selector": {"vendor": "nvidia"}, "mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}},
        rollout={"drain": "evict", "maxUnavailable": 1, "timeoutSeconds": 120},
    )


# --- the main story ---


def test_a_pod_sees_its_partition_and_nothing_else(halves):
    pod = worker(halves, {SMALL: "1"})
    device = assert_sees_its_own(halves, pod)
    assert device.startswith(f"{halves.uuid()}/1g.10gb@")
    assert "NVIDIA_VISIBLE_DEVICES=void" in halves.log(pod).splitlines()


def driver_files(node):
    """{path in the container: path on the host} of what the CDI spec mounts."""
    (spec,) = [s for s in node.cdi_specs().values() if s["kind"] == CDI_KIND]
    return {m["containerPath"]: m["hostPath"] for m in spec["containerEdits"]["mounts"]}


def serve_without_cdi(node, reason, words):
    """Our agent serves the node, whose condition says so, with two small partitions."""
    node.show_runtime()
    node.start()
    wait_for(lambda: node.agrees(), 30, "the agent")
    said = condition(node.status(), "ContainerRuntimeReady")
    assert (said["status"], said["reason"]) == ("True", reason) and words in said["message"]
    node.want(mig(node.uuid(), {"1g.10gb": 2}))
    node.wait_offers(**{SMALL: 2})


LOOK_AT_MOUNTS = """awk '{print "mount", $5, $6}' /proc/self/mountinfo; echo that is all"""


def mounts_of(node, pod):
    """{path: options} as the pod's container has them."""
    said = wait_for(lambda: "that is all\n" in node.log(pod) and node.log(pod), 30, "the pod to say what it sees")
    return dict(line.split()[1:] for line in said.splitlines() if line.startswith("mount "))


def test_a_pod_has_device_files_and_the_driver_where_cdi_is_off(real_node):
    """The kubelet mounts them, from the answer to Allocate."""
    real_node.wait_offers()
    with real_node.without_cdi():
        serve_without_cdi(real_node, "DriverMounts", "set enable_cdi = true in /etc/containerd/config.toml")
        pod = worker(real_node, {SMALL: "1"}, look=f"{LOOK}; {LOOK_AT_MOUNTS}")
        assert_sees_its_own(real_node, pod)
        assert any(line.startswith("NVIDIA_VISIBLE_DEVICES=MIG-") for line in real_node.log(pod).splitlines())
        mounts, files = mounts_of(real_node, pod), driver_files(real_node)
        assert any("libcuda.so.1" in path for path in files) and files.keys() <= mounts.keys()
        assert all("ro" in mounts[path].split(",") for path in files)
        real_node.delete(pod)
    real_node.show_runtime()
    wait_for(lambda: condition(real_node.status(), "ContainerRuntimeReady")["reason"] == "CDI", 30, "the switch to be seen")


def test_cleave_runtime_gives_a_pod_what_cdi_would(real_node, release):
    real_node.wait_offers()
    with real_node.without_cdi(release("cleave-runtime")):
        serve_without_cdi(real_node, "CleaveRuntime", 'its default handler "runc"')
        pod = worker(real_node, {SMALL: "1"}, look=f"{LOOK}; {LOOK_AT_MOUNTS}")
        assert_sees_its_own(real_node, pod)
        assert "NVIDIA_VISIBLE_DEVICES=void" in real_node.log(pod).splitlines()
        mounts, files = mounts_of(real_node, pod), driver_files(real_node)
        assert files.keys() <= mounts.keys() and "/run/cleave" not in " ".join(mounts)
        assert all({"ro", "nosuid", "nodev"} <= set(mounts[path].split(",")) for path in files)
        restart_container(real_node, pod)
        assert real_node.result("echo untouched") == "untouched\n"
        real_node.delete(pod)
        refused = unknown_device(real_node)
        wait_for(lambda: any("which the container was granted, is not described" in e for e in events(real_node, refused)), 60, lambda: real_node.why(refused))
    real_node.show_runtime()


def unknown_device(node):
    """A pod with a mark of its own making. hostPath can do that, and much else."""
    mark = {"name": "mark", "mountPath": "/run/cleave/devices/nvidia/GPU-of-nobody"}
    container = {"name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["true"], "volumeMounts": [mark]}
    volumes = [{"name": "mark", "hostPath": {"path": "/run/cleave/granted", "type": "DirectoryOrCreate"}}]
    return node.run("refused", "true", volumes=volumes, containers=[container])


def events(node, pod):
    return [e.get("note", "") for e in node.rig.events(pod)]


def test_a_pod_gets_a_whole_card(real_node):
    real_node.start()
    real_node.wait_offers(**{GPU: 1})
    pod = worker(real_node, {GPU: "1"})
    assert assert_sees_its_own(real_node, pod) == real_node.uuid()


def test_a_pod_runs_on_while_the_rest_of_its_card_is_cut_anew(halves):
    pod = worker(halves, {HALF: "1"})
    before = halves.container(pod)["containerID"], held(halves, pod), device_files(halves, held(halves, pod)[0])
    halves.want(mig(halves.uuid(), {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}))
    halves.wait_offers(**{HALF: 1, SMALL: 1, "nvidia.com/mig-2g.20gb": 1})
    after = halves.container(pod)["containerID"], held(halves, pod), device_files(halves, held(halves, pod)[0])
    assert after == before and halves.container(pod)["restartCount"] == 0
    assert halves.result("echo mine", {"nvidia.com/mig-2g.20gb": "1"}) == "mine\n"


def test_a_partition_that_a_pod_holds_is_not_taken_and_the_pod_is_named(halves):
    pod = worker(halves, {HALF: "1"})
    standing = halves.placements()
    halves.want(mig(halves.uuid(), {"1g.10gb": 7}))
    halves.wait_applied("InUse")
    holders = [u for p in halves.card()["partitions"] for u in p.get("inUseBy", [])]
    assert [(u["namespace"], u["name"]) for u in holders] == [("default", pod)]
    assert halves.placements() == standing and halves.container(pod)["ready"]
    halves.delete(pod)
    halves.wait_layout({"1g.10gb": 7})
    halves.wait_offers(**{SMALL: 7})


def test_what_an_init_container_holds_is_not_taken_and_its_pod_is_evicted(halves):
    look = f"{LOOK}; while true; do sleep 0.1; done"
    first = {"name": "prepare", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", look]}
    first |= {"resources": {"limits": {HALF: "1"}}}
    pod = halves.run("prepares", "true", {}, initContainers=[first])
    wait_for(lambda: held(halves, pod), 30, lambda: f"the init container to have its partition: {halves.why(pod)}")
    standing = halves.placements()
    halves.want(mig(halves.uuid(), {"1g.10gb": 7}))
    halves.wait_applied("InUse")
    users = [u for p in halves.card()["partitions"] for u in p.get("inUseBy", [])]
    assert [(u["uid"], u["container"]) for u in users] == [(halves.uid(pod), "prepare")]
    assert halves.placements() == standing
    evict(halves)
    wait_for(lambda: halves.api.find(halves.pod_path(pod)) is None, 60, lambda: f"{pod} to be evicted: {halves.applied()}")
    halves.wait_layout({"1g.10gb": 7})


def test_with_evict_the_pod_goes_and_the_layout_changes(halves):
    pod = worker(halves, {HALF: "1"})
    rig, profile = halves.rig, evict(halves)
    wait_for(lambda: halves.api.find(halves.pod_path(pod)) is None, 60, lambda: f"{pod} to be evicted: {halves.applied()}")
    halves.wait_layout({"1g.10gb": 7})
    rig.wait_ready(profile)
    halves.wait_offers(**{SMALL: 7})


# --- what every device plugin has to stand ---


def test_a_container_that_restarts_keeps_its_device(halves):
    pod = worker(halves, {SMALL: "1"})
    device = assert_sees_its_own(halves, pod)
    restart_container(halves, pod)
    assert assert_sees_its_own(halves, pod) == device


PIECE = "nvidia.com/mig-1c.3g.40gb"


def made_piecemeal(node):
    """A card with three compute instances, of which two change their numbers, and with these their device files, when all are made again in one go.
    An instance gets the lowest number that is free: the third place was taken second."""
    node.want(mig(node.uuid(), {"2c.3g.40gb": 1, "1c.3g.40gb": 1}))
    node.wait_offers(**{PIECE: 1, "nvidia.com/mig-2c.3g.40gb": 1})
    node.want(mig(node.uuid(), {"1c.3g.40gb": 3}))
    node.wait_offers(**{PIECE: 3})


def lose_instances(node):
    """The card has lost them, as with a reset: nobody asked the agent, which makes them again."""
    (instance,) = node.cards()[0]["gpuInstances"]
    node.agent.signal(signal.SIGSTOP)
    node.smi("mig", "-i", 0, "-dci", "-gi", instance["id"])
    node.smi("mig", "-i", 0, "-dgi", "-gi", instance["id"])
    node.agent.signal(signal.SIGCONT)
    node.wait_layout({"3g.40gb": 1})
    node.wait_offers(**{PIECE: 3})


def test_a_container_that_starts_again_has_its_partitions_new_files_and_no_old_ones(real_node):
    """The kubelet repeats the answer of the first start, when a file in it may be another pod's."""
    real_node.wait_offers()
    real_node.show_runtime()
    real_node.start()
    wait_for(lambda: condition(real_node.status(), "ContainerRuntimeReady").get("reason") == "CDI", 30, "the runtime to be known")
    made_piecemeal(real_node)
    pods = [worker(real_node, {PIECE: "1"}) for _ in range(3)]
    devices = [assert_sees_its_own(real_node, pod) for pod in pods]
    before = [device_files(real_node, device) for device in devices]
    lose_instances(real_node)

    def has_other_files():
        now = [device_files(real_node, device) for device in devices]
        return None not in now and now != before

    wait_for(has_other_files, 30, "instances to have other files")
    for pod, device in zip(pods, devices, strict=True):
        restart_container(real_node, pod)
        assert assert_sees_its_own(real_node, pod) == device


def test_where_nothing_of_ours_starts_containers_grants_with_old_files_are_told(real_node):
    """The kubelet will repeat such a grant. What the answer was is in the kubelet's checkpoint."""
    real_node.wait_offers()
    with real_node.without_cdi():
        real_node.show_runtime()
        real_node.start()
        wait_for(lambda: condition(real_node.status(), "ContainerRuntimeReady").get("reason") == "DriverMounts", 30, "the runtime to be known")
        made_piecemeal(real_node)
        pods = [worker(real_node, {PIECE: "1"}) for _ in range(3)]
        devices = [assert_sees_its_own(real_node, pod) for pod in pods]
        before = [device_files(real_node, device) for device in devices]
        assert not condition(real_node.status(), "GrantsOutdated")
        lose_instances(real_node)
        said = wait_for(lambda: condition(real_node.status(), "GrantsOutdated"), 30, "the grants to be told of")
        now = [device_files(real_node, device) for device in devices]
        changed = [pod for pod, old, new in zip(pods, before, now, strict=True) if old != new]
        assert said["reason"] == "DeviceFilesChanged" and changed
        assert [pod for pod in pods if pod in said["message"]] == changed
        for pod in pods:
            real_node.delete(pod)
        wait_for(lambda: not condition(real_node.status(), "GrantsOutdated"), 60, "the grants to be forgotten")
    real_node.show_runtime()
    wait_for(lambda: condition(real_node.status(), "ContainerRuntimeReady")["reason"] == "CDI", 30, "the switch to be seen")


def test_the_kubelet_restarts_and_everybody_keeps_what_he_has(halves):
    pod = worker(halves, {SMALL: "1"})
    device = assert_sees_its_own(halves, pod)
    container = halves.container(pod)["containerID"]
    halves.restart_kubelet()
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    assert halves.container(pod)["containerID"] == container and held(halves, pod) == [device]
    restart_container(halves, pod)
    assert assert_sees_its_own(halves, pod) == device
    assert held(halves, worker(halves, {SMALL: "1"}, "other")) != [device]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_the_agent_restarts_and_everybody_keeps_what_he_has(halves, end):
    pod = worker(halves, {SMALL: "1"})
    device = assert_sees_its_own(halves, pod)
    container = halves.container(pod)["containerID"]
    halves.agent.signal(end)
    halves.agent.popen.wait(20)
    halves.wait_offers()
    halves.agent.start()
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    assert halves.container(pod)["containerID"] == container and held(halves, pod) == [device]
    restart_container(halves, pod)
    assert assert_sees_its_own(halves, pod) == device
    assert held(halves, worker(halves, {SMALL: "1"}, "other")) != [device]


def test_both_restart_and_everybody_keeps_what_he_has(halves):
    pod = worker(halves, {SMALL: "1"})
    device = assert_sees_its_own(halves, pod)
    halves.agent.kill()
    halves.restart_kubelet()
    halves.wait_offers()  # the new kubelet's word: it has nothing yet
    halves.agent.start()
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    assert held(halves, pod) == [device] and halves.container(pod)["restartCount"] == 0
    others = [held(halves, worker(halves, {SMALL: "1"}, "other")) for _ in range(2)]
    assert len({device, *(i for ids in others for i in ids)}) == 3


def test_a_pod_that_is_deleted_while_the_kubelet_is_down_gives_back_its_device(halves):
    pods = [worker(halves, {SMALL: "1"}) for _ in range(3)]
    halves.kill_kubelet()
    halves.api.delete(halves.pod_path(pods[0]), now=True)
    halves.up()
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    wait_runs(halves, {SMALL: "1"})


def test_a_pod_that_has_finished_is_left_so_by_a_restart(halves):
    pod = halves.run("done", "echo done", {SMALL: "1"})
    halves.wait_phase(pod, "Succeeded")
    halves.restart_kubelet()
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    wait_runs(halves, {SMALL: "2"})
    assert halves.phase(pod) == "Succeeded"


def test_after_a_reboot_the_node_offers_the_same_and_pods_start(halves):
    pod = worker(halves, {SMALL: "1"})
    (device,) = held(halves, pod)
    halves.reboot()
    halves.agent.start()
    halves.wait_layout({"3g.40gb": 1, "1g.10gb": 3})
    halves.wait_offers(**{HALF: 1, SMALL: 3})

    def settled():
        """The kubelet admits no pod again before the plugin is there: it fails, or it runs with what it had."""
        status = halves.api.get(halves.pod_path(pod))["status"]
        if status["phase"] == "Failed":
            return status.get("reason") == "UnexpectedAdmissionError"
        return halves.container(pod)["restartCount"] >= 1 and halves.container(pod)["ready"] and held(halves, pod) == [device]

    wait_for(settled, 60, lambda: f"the pod to be settled: {halves.why(pod)}")
    after = worker(halves, {SMALL: "1"}, "after")
    assert_sees_its_own(halves, after)


def test_a_sick_card_takes_no_new_pods_and_is_offered_again_when_it_is_well(real_node):
    real_node.start()
    real_node.wait_offers(**{GPU: 1})
    real_node.ctl("lost", "--gpu", 0, "set")
    real_node.wait_offers()
    real_node.ctl("lost", "--gpu", 0, "clear")
    real_node.wait_offers(**{GPU: 1})
    assert real_node.result("echo well", {GPU: "1"}) == "well\n"
