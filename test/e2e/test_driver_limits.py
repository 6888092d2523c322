# SPDX-License-Identifier: Apache-2.0
"""Limits of memory that NVIDIA's driver keeps (from 615 on), on a stub of the kubelet: they stand on the pod's cgroup before its
container can start, and go with the share. The driver is the simulator's, and the cgroups are folders that look like some."""

import contextlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import uuid

import pytest
from conftest import wait_for
from handover import hand_over, stand_by
from kubelet_stub import Refused, grpc, kubelet  # noqa: F401
from stack import rig  # noqa: F401
from test_fractional_stub import GPU, PODS, PODS_END_S, SEED, Shares, fractional
from test_limiter_stub import LIBRARIES, image, terms_of

MIB = 1 << 20
MAX = (1 << 64) - 1
SET = "nvmlDeviceSetMemoryLimits_v1"
CLASSES = ("", "burstable", "besteffort")
# As nvidia-smi memory-limits --set does it.
SETS = """
import ctypes, sys
class Limits(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("soft", ctypes.c_ulonglong), ("hard", ctypes.c_ulonglong)]
nvml, card = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0
sys.exit(nvml.nvmlDeviceSetMemoryLimits_v1(card, ctypes.byref(Limits(sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])))))
"""


def systemd(root, uid, quality):
    slices = ["kubepods", *([f"kubepods-{quality}"] if quality else [])]
    return root.joinpath(*(f"{s}.slice" for s in slices), f"{slices[-1]}-pod{uid.replace('-', '_')}.slice")


def cgroupfs(root, uid, quality):
    return root.joinpath("kubepods", *([quality] if quality else []), f"pod{uid}")


def set_limit(node, cgroup, soft, hard):
    """Another program sets a limit on the first card."""
    words = [sys.executable, "-c", SETS, node.node.library, cgroup, str(soft), str(hard)]
    subprocess.run(words, env={**os.environ, **node.node.env}, timeout=60, check=True)


class Cgroups:
    """A tree of folders as the kubelet makes it, with one of its drivers."""

    def __init__(self, root, driver=systemd, version=2, dmem=False):
        self.root, self.driver = root, driver
        self.files = ["cgroup.controllers"] * (version == 2) + ["dmem.max"] * dmem
        self.make(root)
        for quality in CLASSES:
            self.make(self.path("x", quality).parent)

    def make(self, path):
        path.mkdir()
        for name in self.files:
            (path / name).touch()

    def path(self, uid, quality=""):
        return self.driver(self.root, uid, quality)


class Driven(Shares):
    """A node whose driver has limits. The kubelet makes a pod's cgroup once it was granted its shares, unless is_slow."""

    def __init__(self, rig, kubelet, cards=1, backend="misc", limiter=True, driver=systemd, version=2, dmem=None, **settings):
        self.folder = rig.folder / f"driven-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir(parents=True)
        fleet = self.folder / "fleet.yaml"
        fleet.write_text(f"memoryLimits: {backend}\ngpus: [{{model: h100-80, count: {cards}}}]\n")
        self.cgroups = Cgroups(self.folder / "cgroup", driver, version, backend == "dmem" if dmem is None else dmem)
        self.folders, self.paths, self.quality, self.is_slow = self.folder / "shares", {}, "burstable", False
        self.folders.mkdir()
        flags = {"cgroup_root": self.cgroups.root, "share_folder": self.folders, "library_folder": self.folder / "lib"}
        flags["limiter_folder"] = image(self.folder / "image", 1) if limiter else self.folder / "nowhere"
        super().__init__(rig, kubelet, cards, flags=flags, fleet=fleet, **settings)

    def admit(self, name, limits, slots, annotations=None):
        pod = super().admit(name, limits, slots, annotations)
        uid = self.node.api.get(f"{PODS}/{pod.name}")["metadata"]["uid"]
        self.paths[pod.name] = self.cgroups.path(uid, self.quality)
        if not self.is_slow:
            self.cgroups.make(self.cgroup(pod))
        return pod

    def cgroup(self, pod):
        return self.paths[pod.name]

    def limits(self):
        """{(card, cgroup): MiB} of the limits that stand."""
        told = self.node.hardware()["memoryLimits"]
        assert all(e["softBytes"] == 0 for e in told)
        return {(e["gpu"], e["cgroup"]): e["hardBytes"] / MIB for e in told}

    def limit(self, pod, gpu=0):
        return self.limits().get((gpu, str(self.cgroup(pod))))

    def starts(self, pod):
        """Whether the runtime finds everything that the pod's container is to have."""
        return all(name in self.host.spec() for name in self.names(pod))

    def level(self, gpu=0):
        """None: the card gives no shares, as for a moment when its spec is written anew."""
        return self.node.card(gpu).get("fractional", {}).get("memory")

    def is_empty(self):
        return self.records() == [] and not any(self.folders.iterdir()) and self.host.spec() == {} and not self.limits()

    def restart(self):
        self.node.agent.kill()
        self.host.start(**self.flags)


@pytest.fixture
def node(rig, kubelet):
    return Driven(rig, kubelet)


# --- what holds a container ---


@pytest.mark.parametrize("backend", ["misc", "dmem"])
@pytest.mark.parametrize("driver,quality", [(systemd, "burstable"), (systemd, ""), (cgroupfs, "besteffort")])
def test_the_drivers_limit_is_on_the_pods_cgroup(rig, kubelet, backend, driver, quality):
    node = Driven(rig, kubelet, backend=backend, driver=driver)
    node.quality = quality
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    assert node.limits() == {(0, str(node.cgroup(pod))): 3000}
    wait_for(lambda: node.told(), 30, "the share to be told")
    assert node.level() == "driver"
    node.end(pod)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")


def test_the_limiter_counts_as_well_so_that_the_container_sees_what_it_has(node):
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    (folder,) = node.folders.iterdir()
    mounts = {m["containerPath"] for m in node.host.spec()[node.names(pod)[0]].get("mounts", [])}
    spec = json.loads((node.host.cdi / f"{node.names(pod)[0]}.gpu.cleave.dev-nvidia-slot.json").read_text())
    mounts |= {m["containerPath"] for m in spec["containerEdits"]["mounts"]}
    assert {"/run/cleave", *(f"/usr/lib/cleave/real/{name}.1" for name in LIBRARIES)} <= mounts
    assert [(limit.mib, limit.memory) for limit in terms_of(folder)] == [(3000, "driver")]


def test_without_the_limiter_the_driver_holds_alone(rig, kubelet):
    node = Driven(rig, kubelet, limiter=False)
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    assert node.limit(pod) == 3000 and not any(node.folders.iterdir())
    wait_for(lambda: node.told(), 30, "the share to be told")
    assert node.level() == "driver"


def test_a_pod_with_the_whole_card_has_no_limit(node):
    pod = node.pod("whole")
    node.env(pod)
    assert node.limits() == {}


def test_each_card_of_a_container_has_its_limit(rig, kubelet):
    pair = Driven(rig, kubelet, cards=2)
    pod = pair.pod("two", n=2, gpumem=3000)
    pair.env(pod, 1)
    assert pair.limits() == {(i, str(pair.cgroup(pod))): 3000 for i in range(2)}
    pair.end(pod)
    wait_for(pair.is_empty, PODS_END_S, "nothing to be left")


# --- no container before its limit ---


def test_a_container_waits_for_its_pods_cgroup(node):
    node.is_slow = True
    pod = node.pod("late", gpumem=3000)
    said = wait_for(lambda: node.trouble(pod), 30, "an Event")
    assert "the kubelet has made no cgroup for the pod" in said, said
    assert not node.starts(pod)
    node.cgroups.make(node.cgroup(pod))
    node.env(pod)
    assert node.limit(pod) == 3000


def test_a_class_of_pods_may_be_made_with_the_first_of_them(node):
    node.quality, node.is_slow = "besteffort", True
    shutil.rmtree(node.cgroups.path("x", "besteffort").parent)
    pod = node.pod("first", gpumem=3000)
    node.cgroups.make(node.cgroup(pod).parent)
    node.cgroups.make(node.cgroup(pod))
    node.env(pod)
    assert node.limit(pod) == 3000


@pytest.mark.parametrize("code", ["NO_PERMISSION", "NOT_SUPPORTED", "NOT_FOUND", "INVALID_ARGUMENT", "UNKNOWN", "GPU_IS_LOST", "FUNCTION_NOT_FOUND"])
def test_no_container_starts_while_the_driver_refuses_its_limit(node, code):
    node.node.ctl("fault", "add", "--call", SET, "--nth", 0, "--action", f"fail:{code}")
    pod = node.pod("a", gpumem=3000)
    said = wait_for(lambda: node.trouble(pod), 30, "an Event")
    assert SET in said, said
    assert not node.starts(pod) and node.limits() == {}
    node.node.ctl("fault", "clear")
    node.env(pod)
    assert node.limit(pod) == 3000


def test_a_limit_that_does_not_show_is_none(node):
    node.node.ctl("fault", "add", "--call", "nvmlDeviceGetMemoryLimits_v1", "--nth", 1, "--action", "fail:UNKNOWN")
    pod = node.pod("a", gpumem=3000)
    assert "nvmlDeviceGetMemoryLimits_v1" in wait_for(lambda: node.trouble(pod), 30, "an Event")
    node.env(pod)


def is_killed_or_serves(node):
    return not node.node.agent.running() or node.kubelet.plugin(GPU).is_reachable()


def test_a_limit_that_somebody_took_away_is_set_again(node):
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    set_limit(node, node.cgroup(pod), 0, MAX)
    wait_for(lambda: node.limit(pod) == 3000, 30, "the limit to be back")
    shutil.rmtree(node.cgroup(pod))
    node.cgroups.make(node.cgroup(pod))
    wait_for(lambda: node.limit(pod) == 3000, 30, "the limit of the cgroup that was made anew")


def test_no_container_starts_again_while_a_lost_limit_is_refused(node):
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    node.node.ctl("fault", "add", "--call", SET, "--nth", 0, "--action", "fail:UNKNOWN")
    shutil.rmtree(node.cgroup(pod))
    node.cgroups.make(node.cgroup(pod))
    said = wait_for(lambda: node.trouble(pod), 30, "an Event")
    assert SET in said and not node.starts(pod), said
    node.node.ctl("fault", "clear")
    wait_for(lambda: node.starts(pod), 30, "the limit to be back")
    assert node.limit(pod) == 3000


def assert_held(node, pods):
    """Whoever can start by now has the limit that its record says."""
    for pod in pods:
        if not node.starts(pod):
            continue
        try:
            record = json.loads((node.node.folder / "state" / "slots" / f"{node.names(pod)[0]}.json").read_text())
        except FileNotFoundError:
            assert not node.starts(pod)  # the slot was another pod's
            continue
        if record["pod"] == pod.name:
            assert (record["memoryLevel"], record["memoryMiB"]) == ("driver", node.limit(pod, node.card_of(pod)))


def test_no_container_starts_without_its_limit_whatever_is_killed(rig, kubelet):
    pair = Driven(rig, kubelet, cards=2)
    rng, numbers, pods = random.Random(SEED), itertools.count(), []
    for _ in range(10000 if os.environ.get("CLEAVE_TORTURE") else 30):
        chance = rng.random()
        if chance < 0.5 and len(pods) < 8:
            pair.quality = rng.choice(CLASSES)
            with contextlib.suppress(Refused, grpc.RpcError):  # the agent is away, or the slot's last share is not gone yet
                pods.append(pair.pod(f"p{next(numbers)}", gpumem=rng.choice([1000, 9000])))
        elif chance < 0.75 and pods:
            pair.end(pods.pop(rng.randrange(len(pods))))
        else:
            pair.node.ctl("fault", "clear")  # a fleet has room for few orders
            if rng.random() < 0.5:
                pair.node.ctl("fault", "add", "--call", SET, "--nth", 1, "--action", rng.choice(["kill", "kill-after"]))
            pair.restart()
            wait_for(lambda: is_killed_or_serves(pair), 30, "the new agent to register")
            if not pair.node.agent.running():
                pair.host.start(**pair.flags)
                wait_for(lambda: is_killed_or_serves(pair), 30, "the next agent to register")
        assert_held(pair, pods)
    pair.node.ctl("fault", "clear")
    if not pair.node.agent.running():
        pair.host.start(**pair.flags)
    for pod in pods:
        pair.env(pod)
    assert_held(pair, pods)
    for pod in pods:
        pair.end(pod)
    wait_for(pair.is_empty, PODS_END_S, lambda: f"nothing to be left, not {pair.limits()}")


# --- agents that end, and others that come ---


@pytest.mark.parametrize("when", ["kill", "kill-after"])
def test_an_agent_killed_at_the_limit_is_continued(node, when):
    node.node.ctl("fault", "add", "--call", SET, "--nth", 1, "--action", when)
    pod = node.pod("a", gpumem=3000)
    wait_for(lambda: not node.node.agent.running(), 30, "the agent to be killed")
    assert node.records() == [f"{node.names(pod)[0]}.json"] and not node.starts(pod)
    assert node.limit(pod) == (3000 if when == "kill-after" else None)
    node.node.ctl("fault", "clear")
    node.host.start(**node.flags)
    node.env(pod)
    assert node.limit(pod) == 3000


@pytest.mark.parametrize("when", ["kill", "kill-after"])
def test_an_agent_killed_at_the_limits_end_is_continued(node, when):
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    node.node.ctl("fault", "add", "--call", SET, "--nth", 1, "--action", when)
    node.end(pod)
    wait_for(lambda: not node.node.agent.running(), PODS_END_S, "the agent to be killed")
    assert node.records() == [f"{node.names(pod)[0]}.json"], "the record goes last"
    node.node.ctl("fault", "clear")
    node.host.start(**node.flags)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")


def test_a_cgroup_that_is_gone_before_its_share_leaves_nothing(node):
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    shutil.rmtree(node.cgroup(pod))
    node.end(pod)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")


def test_limits_outlive_the_agent_and_are_not_lost_at_the_next_ones_start(node):
    pods = [node.pod(f"p{i}", gpumem=1000 + i) for i in range(3)]
    for pod in pods:
        node.env(pod)
    before = node.limits()
    node.restart()
    node.kubelet.wait_offers(**{GPU: 10})
    assert node.limits() == before and len(before) == 3


def test_a_limit_that_a_dead_agent_left_is_cleared(node):
    pod, stays = node.pod("a", gpumem=3000), node.pod("b", gpumem=5000)
    node.env(pod)
    node.env(stays)
    node.node.agent.kill()
    (record,) = [node.node.folder / "state" / "slots" / f"{name}.json" for name in node.names(pod)]
    record.unlink()  # the record was lost; its pod ends meanwhile
    node.end(pod)
    node.host.start(**node.flags)
    wait_for(lambda: node.limits() == {(0, str(node.cgroup(stays))): 5000}, PODS_END_S, lambda: f"the limit to go, not {node.limits()}")


def test_limits_of_others_are_left_alone(node):
    node.node.agent.kill()
    theirs = node.cgroups.path("1-2", "burstable")
    node.cgroups.make(theirs)
    set_limit(node, theirs, 7 * MIB, 9 * MIB)
    set_limit(node, theirs.parent.parent, 0, 80000 * MIB)
    assert len(node.node.hardware()["memoryLimits"]) == 2
    node.host.start(**node.flags)
    node.kubelet.wait_offers(**{GPU: 10})
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    node.end(pod)
    wait_for(lambda: node.records() == [], PODS_END_S, "the share to go")
    told = {(e["cgroup"], e["softBytes"], e["hardBytes"]) for e in node.node.hardware()["memoryLimits"]}
    assert told == {(str(theirs), 7 * MIB, 9 * MIB), (str(theirs.parent.parent), 0, 80000 * MIB)}


def test_an_agent_that_stands_by_clears_nothing(node):
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    left = node.cgroups.path("3-4", "burstable")
    node.cgroups.make(left)
    set_limit(node, left, 0, 9 * MIB)
    old = node.node.agent
    new = stand_by(lambda: node.host.start(name="next", **node.flags).node.agent)
    assert len(node.limits()) == 2
    hand_over(old, new)
    wait_for(lambda: node.limits() == {(0, str(node.cgroup(pod))): 3000}, 30, lambda: f"the other to go, not {node.limits()}")


# --- nodes that have no such limits ---


def refused(node):
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "driver"}))
    return node.node.wait_applied("EnforcementUnavailable")["message"]


@pytest.mark.parametrize(
    "how,why",
    [
        ({"backend": "none"}, "the driver on this node has no limits of memory"),
        ({"backend": "off"}, "the driver on this node has no limits of memory"),
        ({"backend": "dmem", "dmem": False}, "lack the kernel's controller dmem"),
        ({"version": 1}, "not of version 2 alone"),
    ],
)
def test_a_node_without_limits_says_so_and_takes_what_it_has(rig, kubelet, how, why):
    node = Driven(rig, kubelet, **how)
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    wait_for(lambda: node.told(), 30, "the share to be told")
    assert node.level() == "library" and node.limits() == {}
    node.end(pod)
    wait_for(node.is_empty, PODS_END_S, "nothing to be left")
    said = refused(node)
    assert why in said and "enforcement.memory" in said, said
    assert not [c for c in node.node.changes() if c["call"] == SET and c["result"] == 0]


def test_a_profile_may_want_the_driver_or_nothing_of_it(node):
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "library"}))
    wait_for(lambda: node.level() == "library", 30, "new shares to be held by the limiter")
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    assert node.limits() == {}
    node.node.want(fractional(node.node.uuid(), enforcement={"memory": "driver"}))
    node.node.wait_ready()
    node.kubelet.wait_offers(**{GPU: 10})
    other = node.pod("b", gpumem=3000)
    node.env(other)
    assert node.limits() == {(0, str(node.cgroup(other))): 3000}
    assert node.level() == "library", "what was made keeps what holds it"


def test_oversubscribed_memory_is_held_by_the_limiter(rig, kubelet):
    node = Driven(rig, kubelet, memoryOversubscriptionPercent=150)
    pod = node.pod("a", gpumem=3000)
    node.env(pod)
    assert node.level() == "library" and node.limits() == {}
