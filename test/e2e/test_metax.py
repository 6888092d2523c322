# SPDX-License-Identifier: Apache-2.0
"""MetaX's cards on a node with a real kubelet, containerd and runc: whole, with slices that stand, and with slices made for pods.

The last is the story of Koordinator's documentation for users of MetaX: a pod asks for a tenth of a card under a policy, and
its slice comes and goes with it. What a scheduler would have written into the pod is written by the test.
"""

import json

import pytest
from conftest import wait_for
from koordinator_kind import install, uninstall
from kubelet_rig import SAID_ALL, real_cluster, real_rig  # noqa: F401

GPU = "metax-tech.com/gpu"
SGPU = "metax-tech.com/sgpu"
QOS = "metax-tech.com/sgpu-qos-policy"
LOOK = f"find /dev -name 'mx*' -o -name 'renderD*' | sort; env | grep METAX || true; echo {SAID_ALL}"


@pytest.fixture
def node(real_rig):
    """One C500, served by our agent."""
    n = real_rig.node({"c500": 1})
    n.ctl("sys-root", n.folder)
    wait_offers(n)  # what the agent of the test before offered is off the Node
    n.start()
    wait_for(lambda: n.agrees(), 30, "the agent")
    return n


@pytest.fixture
def koordinated(real_rig, node):
    """The node in a cluster with Koordinator's kind, and our controller."""
    install(real_rig)
    real_rig.controller()
    yield node
    uninstall(real_rig)
    wait_for(lambda: koordinators(node) == {}, 30, "Koordinator's resources to be taken back")


def offers(node):
    given = node.node_object()["status"]["allocatable"]
    return {name: int(count) for name, count in given.items() if name.startswith("metax-tech.com/") and count != "0"}


def koordinators(node):
    """What can be had under Koordinator's names, after a look that it is the capacity too."""
    status = node.node_object()["status"]
    given, has = ({k: v for k, v in status[m].items() if k.startswith("koordinator.sh/")} for m in ("allocatable", "capacity"))
    assert given == has
    return given


def wait_offers(node, **counts):
    wait_for(lambda: offers(node) == counts, 30, lambda: f"the node to offer {counts}, not {offers(node)}")


def card(node):
    return next(c for c in node.hardware()["metax"])


def slices(node):
    return sorted((s["alias"], s["vramMiB"], s["computePct"]) for s in card(node)["slices"])


def want(node, **sgpu):
    node.want({"uuid": card(node)["uuid"], "mode": "sgpu", "sgpu": sgpu})


def annotated(node, name, command, annotations=None, limits=None, restart="Never"):
    """A pod with annotations, which run() has none of."""
    container = {"name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", command]}
    container["resources"] = {"limits": limits or {SGPU: "1"}}
    path = "/api/v1/namespaces/default/pods"
    name = f"{node.rig.id}-{name}"
    node.rig.objects.append(f"{path}/{name}")
    spec = {"restartPolicy": restart, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "containers": [container]}
    node.rig.scheduler.create(path, {"metadata": {"name": name, "annotations": annotations or {}, "labels": {"test": node.rig.id}}, "spec": spec})
    return name


def allocated(node, compute, memory):
    """What a scheduler writes that chose the card."""
    return {"metax-tech.com/gpu-devices-allocated": json.dumps([[{"uuid": card(node)["uuid"], "compute": compute, "vRam": memory}]])}


RUN = f"trap 'exit 0' TERM; {LOOK}; sleep 3600 & wait"


def test_a_pod_gets_a_whole_card_of_metax(node):
    wait_offers(node, **{GPU: 1})
    seen = node.result(LOOK, {GPU: "1"}).splitlines()
    assert "/dev/mxcd" in seen and any(line.startswith("/dev/dri/renderD") for line in seen), seen
    assert not any(line.startswith("METAX_SGPUS") for line in seen)


def test_a_pod_gets_a_slice_that_stands(node):
    want(node, qosPolicy="fixed-share", slices=[{"alias": "small", "memoryMiB": 1024, "computePercent": 10, "count": 2}])
    wait_offers(node, **{"metax-tech.com/sgpu-small": 2})
    seen = node.result(LOOK, {"metax-tech.com/sgpu-small": "1"})
    assert "/dev/mxcd" in seen and "compute=10;vram=1024;alias=cleave.small-" in seen, seen
    assert [s[1:] for s in slices(node)] == [(1024, 10), (1024, 10)], "it stands on after the pod"


def test_the_slice_of_a_pod_comes_and_goes_with_it(node):
    want(node)
    wait_offers(node, **{SGPU: 16})
    pod = annotated(node, "story", RUN, {QOS: "fixed-share", **allocated(node, 10, 1024)})
    node.wait_phase(pod, "Running")
    seen = node.said(pod)
    assert "/dev/mxcd" in seen, seen
    assert any("compute=10;vram=1024;alias=cleave.slot." in line for line in seen), seen
    ((alias, memory, compute),) = slices(node)
    assert alias.startswith("cleave.slot.") and (memory, compute) == (1024, 10)
    assert card(node)["schedClass"] == "fixed-share"
    (partition,) = wait_for(lambda: node.card().get("partitions"), 10, "the slice to be told")
    assert [(u["namespace"], u["name"]) for u in partition["inUseBy"]] == [("default", pod)]
    assert offers(node) == {SGPU: 16}, "the kubelet counts what it gave"
    node.delete(pod)
    wait_for(lambda: slices(node) == [], 30, "the slice to go with its pod")
    assert not [name for name in node.cdi_specs() if "slot" in name]


# The manual's pod, of which its scheduler would write the card into an annotation. The node's one card needs no choice.
MANUALS_POD = {SGPU: "1", "koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "1Gi"}
MANUALS_NODE = {
    "koordinator.sh/gpu-core": "100",
    "koordinator.sh/gpu-memory": "64Gi",
    "koordinator.sh/gpu-memory-ratio": "100",
    "koordinator.sh/gpu.shared": "100",
}


def test_the_story_of_koordinators_manual(koordinated):
    node = koordinated
    profile = node.rig.profile("manual", {"selector": {"vendor": "metax"}, "mode": "sgpu"})
    wait_offers(node, **{SGPU: 16})
    wait_for(lambda: koordinators(node) == MANUALS_NODE, 30, lambda: f"the manual's node, not {koordinators(node)}")
    pod = annotated(node, "manual", RUN, {QOS: "fixed-share"}, MANUALS_POD)
    node.wait_phase(pod, "Running")
    seen = node.said(pod)
    assert "/dev/mxcd" in seen and any("compute=10;vram=1024" in line for line in seen), seen
    assert [s[1:] for s in slices(node)] == [(1024, 10)] and card(node)["schedClass"] == "fixed-share"
    assert koordinators(node) == MANUALS_NODE and offers(node) == {SGPU: 16}
    node.rig.wait_ready(profile)
    node.restart_kubelet()
    wait_for(lambda: koordinators(node) == MANUALS_NODE and offers(node) == {SGPU: 16}, 60, "the kubelet's reset to be mended")
    node.delete(pod)
    wait_for(lambda: slices(node) == [], 30, "the slice to go with its pod")


def test_several_pods_at_once_get_a_slice_each(node):
    want(node)
    wait_offers(node, **{SGPU: 16})
    pods = [annotated(node, f"many-{i}", RUN, {QOS: "fixed-share", **allocated(node, 10, 1024 * (i + 1))}) for i in range(5)]
    for pod in pods:
        node.wait_phase(pod, "Running")
    assert sorted(memory for _, memory, _ in slices(node)) == [1024 * (i + 1) for i in range(5)]
    for i, pod in enumerate(pods):
        wait_for(lambda pod=pod, i=i: f"vram={1024 * (i + 1)};" in node.log(pod), 30, f"{pod} to see its own slice")
    for pod in pods:
        node.delete(pod)
    wait_for(lambda: slices(node) == [], 30, "all slices to go")


def test_a_pod_that_asks_for_what_there_is_not_is_told_so_and_starts_when_there_is(node):
    want(node, qosPolicy="fixed-share")
    wait_offers(node, **{SGPU: 16})
    first = annotated(node, "first", RUN, allocated(node, 90, 60 * 1024))
    node.wait_phase(first, "Running")
    second = annotated(node, "second", RUN, allocated(node, 20, 1024))
    told = f"pod default/{second}, container main: "
    event = wait_for(lambda: [e for e in node.rig.events(node.name) if e["note"].startswith(told)], 30, "the reason to be told")
    assert (event[-1]["reason"], event[-1]["note"]) == ("SliceNotMade", told + "20 % of compute are asked for, and 10 are left on MetaX GPU 0")
    node.delete(first)
    node.wait_phase(second, "Running", timeout=60)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_agent_restarts_and_every_pod_keeps_its_slice(node, end):
    want(node)
    wait_offers(node, **{SGPU: 16})
    pod = annotated(node, "keeps", RUN, {QOS: "burst-share", **allocated(node, 30, 4096)}, restart="Always")
    gone = annotated(node, "gone", RUN, {QOS: "burst-share", **allocated(node, 10, 1024)})
    for name in (pod, gone):
        node.wait_phase(name, "Running")
    before = node.container(pod)["containerID"]
    (kept,) = [s for s in card(node)["slices"] if s["vramMiB"] == 4096]
    getattr(node.agent, end)()
    node.delete(gone)
    node.start()
    wait_for(lambda: [s["uuid"] for s in card(node)["slices"]] == [kept["uuid"]], 60, "what nobody holds any more to go, and nothing else")
    assert node.container(pod)["containerID"] == before
