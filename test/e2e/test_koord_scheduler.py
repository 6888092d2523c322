# SPDX-License-Identifier: Apache-2.0
"""Pods scheduled by Koordinator's own scheduler from what Cleave tells it, on a real kubelet: nobody writes an annotation by hand."""

import contextlib
import json

import pytest
from conftest import wait_for
from koord_scheduler import koord_scheduler
from kubelet_rig import real_cluster, real_rig  # noqa: F401

SGPU = "metax-tech.com/sgpu"
QOS = "metax-tech.com/sgpu-qos-policy"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
METAX = "metax-tech.com/gpu-devices-allocated"
LOCK = "hami.io/mutex.lock"
# The gate with which it writes what MetaX's plugin reads, and locks the Node for each pod.
LOCKING = {"DevicePluginAdaption": True}
both_ways = pytest.mark.parametrize("node", [{}, LOCKING], ids=["as it is", "locking"], indirect=True)
LOOK = "find /dev -name 'mx*' | sort; env | grep METAX_SGPUS"
RUN = f"trap 'exit 0' TERM; {LOOK}; sleep 3600 & wait"


@pytest.fixture
def two_cards(real_rig):
    """Makes the node of two cards of a model, our agent and controller on it, and koord-scheduler."""
    with contextlib.ExitStack() as stack:

        def make(model, **gates):
            n = real_rig.node({model: 2})
            stack.callback(wait_for, lambda: koordinators(n) == {}, 30, lambda: f"Koordinator's resources to be taken back: {koordinators(n)}")
            n.scheduler = stack.enter_context(koord_scheduler(real_rig, **gates))
            n.ctl("sys-root", n.folder)
            n.start()
            real_rig.controller()
            return n

        yield make


@pytest.fixture
def node(two_cards, request):
    """Two C500 that are cut for pods."""
    n = two_cards("c500", **getattr(request, "param", {}))
    n.rig.profile("slices", {"selector": {"vendor": "metax"}, "mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share"}})
    wait_offers(n, **{SGPU: "32", "koordinator.sh/gpu-core": "200"})
    wait_free(n, "200")
    return n


def koordinators(node):
    """What can be had under Koordinator's names."""
    return {k: v for k, v in node.node_object()["status"]["allocatable"].items() if k.startswith("koordinator.sh/")}


def wait_offers(node, **counts):
    def look():
        given = node.node_object()["status"]["allocatable"]
        return {name: given.get(name) for name in counts}

    wait_for(lambda: look() == counts, 60, lambda: f"the node to offer {counts}, not {look()}")


def scheduled(node, name, command, limits, annotations=None):
    """A pod for koord-scheduler; returns its name."""
    name = f"{node.rig.id}-{name}"
    container = {"name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", command]}
    spec = {
        "schedulerName": "koord-scheduler",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [{**container, "resources": {"limits": limits}}],
    }
    node.rig.objects.append(node.pod_path(name))
    node.api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec})
    return name


def pod(node, name, compute, memory, cards=1):
    """The pod of Koordinator's manual for MetaX; of several cards it gets the same of each."""
    limits = {SGPU: str(cards), "koordinator.sh/gpu.shared": str(cards), "koordinator.sh/gpu-core": str(compute), "koordinator.sh/gpu-memory": memory}
    return scheduled(node, name, RUN, limits, {QOS: "fixed-share"})


def wait_free(node, percent):
    """Before its books have the node's Device, the scheduler binds a pod without choosing a card."""

    def look():
        return node.scheduler.free(node).get("koordinator.sh/gpu-core")

    wait_for(lambda: look() == percent, 30, lambda: f"the scheduler's books to have {percent} % of cards left, not {look()}")


def wait_no_room(node, name):
    wait_for(lambda: any(e["reason"] == "FailedScheduling" for e in node.rig.events(name)), 30, f"the scheduler to find no room for {name}")


def slices(node):
    """[(card, MiB, percent)] of the hardware."""
    return sorted((card["uuid"], s["vramMiB"], s["computePct"]) for card in node.hardware()["metax"] for s in card["slices"])


def chosen(node, name):
    """What the scheduler wrote into the pod, as a slice of the hardware."""
    notes = node.api.get(node.pod_path(name))["metadata"]["annotations"]
    (one,) = json.loads(notes[ALLOCATED])["gpu"]
    memory = one["resources"]["koordinator.sh/gpu-memory"]
    given = one["id"], int(memory.removesuffix("Gi")) * 1024, int(one["resources"]["koordinator.sh/gpu-core"])
    if METAX in notes:
        assert json.loads(notes[METAX]) == [[dict(zip(("uuid", "vRam", "compute"), given, strict=True))]]
    return given


def lock(node):
    return node.node_object()["metadata"].get("annotations", {}).get(LOCK)


@both_ways
def test_the_manuals_pod_gets_its_slice_on_the_card_that_its_scheduler_chose(node):
    name = pod(node, "manual", 10, "1Gi")
    node.wait_phase(name, "Running", timeout=60)
    assert slices(node) == [chosen(node, name)]
    assert chosen(node, name)[1:] == (1024, 10)
    seen = wait_for(lambda: node.log(name).splitlines(), 30, "the pod to say what it sees")
    assert "/dev/mxcd" in seen and any("compute=10;vram=1024" in line for line in seen), seen
    wait_for(lambda: lock(node) is None, 10, "the scheduler's lock to be given back")
    node.delete(name)
    wait_for(lambda: slices(node) == [], 30, "the slice to go with its pod")


@both_ways
def test_pods_that_fill_two_cards_run_one_beside_the_other_and_what_one_leaves_another_gets(node):
    pods = [pod(node, f"half-{i}", 50, "32Gi") for i in range(4)]
    for name in pods:
        node.wait_phase(name, "Running", timeout=120)
    assert slices(node) == sorted(chosen(node, name) for name in pods)
    assert sorted(percent for _, _, percent in slices(node)) == [50] * 4
    one_more = pod(node, "one-more", 50, "32Gi")
    wait_no_room(node, one_more)
    for name in (one_more, pods[0]):
        node.delete(name)
    wait_free(node, "50")
    late = pod(node, "late", 50, "32Gi")
    node.wait_phase(late, "Running", timeout=120)
    assert slices(node) == sorted(chosen(node, name) for name in [*pods[1:], late])


def test_a_card_that_falls_ill_is_not_chosen(node):
    ill, well = (card["uuid"] for card in node.hardware()["metax"])
    node.ctl("ecc", "--gpu", "metax:0", "dram-ue", 2)
    wait_offers(node, **{"koordinator.sh/gpu-core": "100"})
    wait_free(node, "100")
    pods = [pod(node, f"well-{i}", 50, "32Gi") for i in range(2)]
    for name in pods:
        node.wait_phase(name, "Running", timeout=120)
    assert {uuid for uuid, _, _ in slices(node)} == {well}, f"{ill} is ill"


@both_ways
def test_a_pod_of_two_cards_gets_a_slice_of_each(node):
    name = pod(node, "both", 200, "128Gi", cards=2)
    node.wait_phase(name, "Running", timeout=60)
    assert slices(node) == sorted((card["uuid"], 64 * 1024, 100) for card in node.hardware()["metax"])


def test_whole_cards_of_nvidia_are_counted_as_the_kubelet_gives_them(two_cards):
    node = two_cards("h100-80")
    wait_offers(node, **{"nvidia.com/gpu": "2", "koordinator.sh/gpu": "200"})
    wait_free(node, "200")
    run = "trap 'exit 0' TERM; find /dev -name 'nvidia[0-9]*'; sleep 3600 & wait"
    pods = [scheduled(node, f"whole-{i}", run, {"nvidia.com/gpu": "1"}) for i in range(2)]
    for name in pods:
        node.wait_phase(name, "Running", timeout=120)
    cards = [wait_for(lambda name=name: node.log(name).split(), 30, f"{name} to say what it sees") for name in pods]
    assert sorted(cards) == [["/dev/nvidia0"], ["/dev/nvidia1"]]
    one_more = scheduled(node, "one-more", run, {"nvidia.com/gpu": "1"})
    wait_no_room(node, one_more)
