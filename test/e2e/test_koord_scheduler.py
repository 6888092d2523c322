# SPDX-License-Identifier: Apache-2.0
"""Pods scheduled by Koordinator's own scheduler from what Cleave tells it, on a real kubelet: nobody writes an annotation by hand."""

import contextlib
import json

import pytest
from conftest import wait_for
from koord_scheduler import koord_scheduler
from kubelet_rig import SAID_ALL, real_cluster, real_rig  # noqa: F401

pytestmark = pytest.mark.second_cluster

SGPU = "metax-tech.com/sgpu"
QOS = "metax-tech.com/sgpu-qos-policy"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
METAX = "metax-tech.com/gpu-devices-allocated"
LOCK = "hami.io/mutex.lock"
# The gate with which it writes what MetaX's plugin reads, and locks the Node for each pod.
LOCKING = {"DevicePluginAdaption": True}
both_ways = pytest.mark.parametrize("node", [{}, LOCKING], ids=["as it is", "locking"], indirect=True)
LOOK = f"find /dev -name 'mx*' | sort; env | grep METAX_SGPUS; echo {SAID_ALL}"
RUN = f"trap 'exit 0' TERM; {LOOK}; sleep 3600 & wait"


@pytest.fixture
def two_cards(real_rig):
    """Makes the node of two cards of a model, our agent and controller on it, and koord-scheduler."""
    with contextlib.ExitStack() as stack:

        def make(model, flags=None, **gates):
            n = real_rig.node({model: 2}, slots=True)
            stack.callback(wait_for, lambda: koordinators(n) == {}, 30, lambda: f"Koordinator's resources to be taken back: {koordinators(n)}")
            n.scheduler = stack.enter_context(koord_scheduler(real_rig, **gates))
            n.ctl("sys-root", n.folder)
            n.start(**(flags or {}))
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
    seen = node.said(name)
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


# --- Shares of NVIDIA's cards ---

SHARE = "gpu.cleave.dev/share"
CARD_MIB = 81559


@pytest.fixture
def shares(two_cards):
    """Two H100 that give up to ten shares each, for Koordinator's words too."""
    n = two_cards("h100-80", flags={"koordinator_shares": "on"})
    n.rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
    wait_offers(n, **{SHARE: "20", "nvidia.com/gpu": "20", "koordinator.sh/gpu": "200"})
    wait_free(n, "200")
    return n


def share(node, name, count=1, **words):
    """A pod in Koordinator's words: core=30, memory="8Gi", memory_ratio=20, shared=2."""
    names = {"core": "gpu-core", "memory": "gpu-memory", "memory_ratio": "gpu-memory-ratio", "shared": "gpu.shared", "gpu": "gpu"}
    limits = {SHARE: str(count), **{f"koordinator.sh/{names[k]}": str(v) for k, v in words.items()}}
    return scheduled(node, name, SHOW, limits)


SHOW = f"trap 'exit 0' TERM; find /dev -name 'nvidia[0-9]*' | sort; env | grep CUDA_DEVICE | sort; echo {SAID_ALL}; sleep 3600 & wait"


def chosen_cards(node, name):
    return [card["id"] for card in json.loads(node.api.get(node.pod_path(name))["metadata"]["annotations"][ALLOCATED])["gpu"]]


def wait_as_chosen(node, *pods):
    """Waits until these pods have their shares, and no others, on the cards that were chosen for them."""
    wanted = {name: chosen_cards(node, name) for name in pods}

    def lie():
        return {name: [card for card, _, _ in found] for name, found in node.shares_told().items()}

    wait_for(lambda: lie() == wanted, 30, lambda: f"the shares to lie on {wanted}, not {lie()}")


def test_shares_of_nvidias_cards_lie_where_its_scheduler_chose(shares):
    pods = {
        share(shares, "memory", core=30, memory="8Gi"): (8192, 30),
        share(shares, "ratio", core=20, memory_ratio=50): (CARD_MIB // 2, 20),
        share(shares, "shared", shared=1, memory="3000Mi"): (3000, 0),
        share(shares, "percent", gpu=40): (CARD_MIB * 40 // 100, 40),
    }
    for name in pods:
        shares.wait_phase(name, "Running", timeout=60)

    def wanted():
        return {name: [(card, *size) for card in chosen_cards(shares, name)] for name, size in pods.items()}

    wait_for(lambda: shares.shares_told() == wanted(), 30, lambda: f"the shares {wanted()}, not {shares.shares_told()}")
    seen = shares.said(next(iter(pods)))
    assert seen[0].startswith("/dev/nvidia") and "CUDA_DEVICE_MEMORY_LIMIT_0=8192m" in seen and "CUDA_DEVICE_SM_LIMIT=30" in seen, seen
    for name in pods:
        shares.delete(name)
    wait_for(lambda: not shares.shares_told(), 30, "the shares to go with their pods")


def test_its_books_and_the_agents_agree_until_the_cards_are_full(shares):
    halves = [share(shares, f"half-{i}", core=50, memory_ratio=50) for i in range(4)]
    for name in halves:
        shares.wait_phase(name, "Running", timeout=60)
    one_more = share(shares, "one-more", core=10, memory_ratio=10)
    wait_no_room(shares, one_more)
    shares.delete(one_more)
    shares.delete(halves[0])
    wait_free(shares, "50")
    late = share(shares, "late", core=50, memory_ratio=50)
    shares.wait_phase(late, "Running", timeout=60)
    wait_as_chosen(shares, *halves[1:], late)


def test_a_pod_of_two_cards_and_whole_cards_in_both_words(shares):
    both = share(shares, "both", count=2, gpu=200)
    shares.wait_phase(both, "Running", timeout=60)
    whole = sorted((card["uuid"], CARD_MIB, 100) for card in shares.cards_told())
    wait_for(lambda: sorted(shares.shares_told().get(both, [])) == whole, 30, lambda: f"both cards, not {shares.shares_told()}")
    shares.delete(both)
    wait_free(shares, "200")
    pods = [scheduled(shares, f"whole-{i}", SHOW, {"nvidia.com/gpu": "1"}) for i in range(2)]
    for name in pods:
        shares.wait_phase(name, "Running", timeout=60)
    wait_as_chosen(shares, *pods)
