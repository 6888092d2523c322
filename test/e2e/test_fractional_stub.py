# SPDX-License-Identifier: Apache-2.0
"""Shares of NVIDIA's cards, on a stub of the kubelet: who gets what when, what is counted, and what never is given twice. The
same on a real kubelet is in test_fractional.py."""

import contextlib
import itertools
import json
import os
import random
import re
import subprocess

import pytest
from conftest import NotYet, wait_for
from handover import hand_over, stand_by
from kubelet_stub import Refused, grpc, kubelet  # noqa: F401
from stack import ApiError, mig, rig, serve, slot_records  # noqa: F401
from test_plugin_stub import Host

GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
CORES = "nvidia.com/gpucores"
KOORDINATOR_SHARE = "gpu.cleave.dev/share"
BOTH = {GPU, KOORDINATOR_SHARE}
RECORD = "gpu.cleave.dev/allocation"
CDI_KIND = "gpu.cleave.dev/nvidia"
PODS = "/api/v1/namespaces/default/pods"
CARD_MIB = 81559
SEED = 20260117
# What ended is told no earlier: a kubelet that just started answers before it knows its pods, and its lists are not believed
# for 30 s (YOUNG_MS of holders_watch.c).
PODS_END_S = 60


def fractional(uuid, **settings):
    return {"uuid": uuid, "mode": "native", "sharing": {"fractional": settings}}


class Shares:
    """A node of H100 whose agent gives them out in shares."""

    def __init__(self, rig, kubelet, cards=1, flags=None, fleet=None, **settings):
        self.rig, self.kubelet, self.flags = rig, kubelet, flags or {}
        self.host = Host(rig, kubelet, fleet or {"h100-80": cards}, slots=True).start(**self.flags)
        self.node = self.host.node
        wait_for(self.node.agrees, 30, "the agent")
        self.settings = settings
        self.node.want(*(fractional(self.node.uuid(i), **settings) for i in range(cards)))
        names = BOTH if self.flags.get("koordinator_shares") == "on" else {GPU}
        kubelet.wait_offers(**dict.fromkeys(names, cards * settings.get("maxShares", 10)))

    def pod(self, name, n=1, annotations=None, **limits):
        """Makes the pod in the API, on this node, and has the kubelet admit it. limits: gpumem, gpucores, …"""
        limits = {GPU: str(n), **{f"nvidia.com/{k.replace('_', '-')}": str(v) for k, v in limits.items()}}
        return self.admit(name, limits, {GPU: n}, annotations)

    def koordinator_pod(self, name, mib, percent):
        """The same for a share in Koordinator's words, whose card the agent chooses."""
        words = {"koordinator.sh/gpu-memory": f"{mib}Mi", **({"koordinator.sh/gpu-core": str(percent)} if percent else {})}
        return self.admit(name, {KOORDINATOR_SHARE: "1", **words}, {KOORDINATOR_SHARE: 1})

    def admit(self, name, limits, slots, annotations=None):
        container = {"name": "main", "image": "none", "resources": {"limits": limits}}
        name = f"{self.rig.id}-{name}"
        self.rig.objects.append(f"{PODS}/{name}")
        spec = {"nodeName": self.node.name, "containers": [container], "terminationGracePeriodSeconds": 0}
        self.node.rig.scheduler.create(PODS, {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec})
        return self.kubelet.admit("default", name, slots)

    def end(self, pod):
        self.node.api.delete(f"{PODS}/{pod.name}", now=True)
        self.kubelet.end(pod)

    def names(self, pod):
        ((resource, answer),) = pod.answers.items()
        names = [d.name for d in answer.cdi_devices]
        pool = {GPU: "share", KOORDINATOR_SHARE: "koord"}[resource]
        assert all(n.startswith(f"{CDI_KIND}={pool}.") for n in names), names
        return [n.removeprefix(f"{CDI_KIND}=") for n in names]

    def env(self, pod, i=0):
        """What the runtime finds under the name of the pod's share."""
        edits = wait_for(lambda: self.host.spec().get(self.names(pod)[i]), 30, "the share's CDI file")
        return dict(e.split("=", 1) for e in edits.get("env", []))

    def card_of(self, pod, i=0):
        edits = wait_for(lambda: self.host.spec().get(self.names(pod)[i]), 30, "the share's CDI file")
        (device,) = [n["path"] for n in edits["deviceNodes"]]
        return int(device.removeprefix("/dev/nvidia"))

    def told(self, gpu=0):
        """The shares of a card as the Device has them: (MiB, percent), the pod."""
        return sorted(
            ((p["slice"]["memoryMiB"], p["slice"]["computePercent"]), p["inUseBy"][0]["name"])
            for p in self.node.card(gpu).get("partitions", [])
            if p.get("inUseBy")
        )

    def trouble(self, pod):
        """What the last Event about the pod says."""
        notes = [e["note"] for e in self.rig.events(self.node.name, "ShareNotMade") if f"/{pod.name}" in e["note"]]
        if not notes:
            raise NotYet(f"no Event about {pod.name}")
        return notes[-1]

    def inspect(self):
        """What an administrator of the host is shown."""
        words = ["--nvml-library", self.node.library, "--state-dir", self.node.folder / "state", "--proc-root", self.node.folder / "proc"]
        agent = self.rig.release("cleave-agent")
        done = subprocess.run(
            [agent, "inspect", *map(str, words)], env={**os.environ, **self.node.env}, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def measured(self):
        """Of how many containers the agent has measured how soon they had their shares."""
        lines = serve(self.node.agent, "/metrics")[1].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("cleave_agent_slot_bind_seconds_count "))

    def records(self):
        return sorted(p.name for p in (self.node.folder / "state" / "slots").glob("*.json"))


@pytest.fixture
def node(rig, kubelet):
    return Shares(rig, kubelet)


@pytest.fixture
def pair(rig, kubelet):
    return Shares(rig, kubelet, cards=2)


def of_hami(shares, name, annotation, device):
    """A pod that HAMi's scheduler and plugin gave a card to: in the API, and on the kubelet's record."""
    name = f"{shares.rig.id}-{name}"
    shares.rig.objects.append(f"{PODS}/{name}")
    meta = {"name": name, "annotations": {"hami.io/vgpu-devices-allocated": annotation} if annotation else {}}
    spec = {"nodeName": shares.node.name, "containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 0}
    shares.rig.scheduler.create(PODS, {"metadata": meta, "spec": spec})
    return shares.kubelet.gave("default", name, GPU, device)


def test_pods_of_hami_run_on_and_their_shares_count(pair):
    first, second = pair.node.uuid(0), pair.node.uuid(1)
    theirs = of_hami(pair, "theirs", f"{second},NVIDIA,60000,40:;", f"{first}-3")  # the kubelet chose any identifier
    pair.node.agent.kill()
    pair.kubelet.wait_no_dead()
    pair.node.agent.start()
    wait_for(lambda: pair.told(1) == [((60000, 40), theirs.name)], PODS_END_S, lambda: f"the share of HAMi's pod, not {pair.told(1)}")
    assert pair.told(0) == []
    wait_for(lambda: pair.kubelet.offers()[GPU][0] > 0, 30, "the next agent's slots to be had")
    pods = [pair.pod(name, gpumem=40000) for name in ("a", "b")]
    assert [pair.card_of(pod) for pod in pods] == [0, 0]
    late = pair.pod("late", gpumem=40000)
    assert "needs 40000 MiB on one card; the best of 2 has 21559 MiB" in wait_for(lambda: pair.trouble(late), 30, "an Event")
    pair.end(theirs)
    wait_for(lambda: pair.told(1) == [((40000, 0), late.name)], PODS_END_S, lambda: f"the room, not {pair.told(1)}")


def test_a_card_with_a_share_of_hami_is_cut_only_when_its_pod_is_gone(node):
    uuid = node.node.uuid()
    theirs = of_hami(node, "theirs", f"{uuid},NVIDIA,3000,0:;", f"{uuid}-7")
    node.node.agent.kill()
    node.node.want(mig(uuid, {"1g.10gb": 7}))  # meanwhile
    node.kubelet.wait_no_dead()
    node.node.agent.start()
    # Before the pod is read it is one of HAMi's; the attempt is repeated each second.
    wait_for(lambda: (told := node.node.applied()).get("reason") == "InUse" and theirs.name in told["message"], 30, "the pod to be named")
    node.end(theirs)
    node.node.wait_layout({"1g.10gb": 7}, timeout=PODS_END_S)


def test_while_it_is_not_known_which_card_a_pod_of_hami_has_no_share_is_offered(node):
    unknown = of_hami(node, "unknown", None, f"{node.node.uuid()}-0")
    wait_for(lambda: "it has no annotation hami.io/vgpu-devices-allocated" in node.trouble(unknown), 60, "an Event")
    node.kubelet.wait_offer(GPU, 0, 10)
    doubts = [(p["slice"]["alias"], p["slice"]["memoryMiB"]) for p in wait_for(lambda: node.node.card(0).get("partitions"), 30, "the doubt")]
    assert doubts == [("hami", CARD_MIB)]
    node.end(unknown)
    node.kubelet.wait_offers(timeout=PODS_END_S, **{GPU: 10})
    assert node.card_of(node.pod("next", gpumem=1000)) == 0


def test_pods_share_a_card_by_what_they_ask_for(node):
    a = node.pod("a", gpumem=3000, gpucores=30)
    b = node.pod("b", gpumem_percentage=50)
    assert {k: v for k, v in node.env(a).items() if k.startswith("CUDA")} == {"CUDA_DEVICE_MEMORY_LIMIT_0": "3000m", "CUDA_DEVICE_SM_LIMIT": "30"}
    assert node.env(b)["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{CARD_MIB // 2}m"
    wait_for(lambda: node.told() == [((3000, 30), a.name), ((CARD_MIB // 2, 0), b.name)], 30, lambda: f"the shares, not {node.told()}")
    wait_for(lambda: node.measured() == 2, 10, lambda: f"two to be measured, not {node.measured()}")
    told = node.node.card()
    assert told["fractional"] == {"memoryMiB": CARD_MIB, "maxShares": 10, "computePercent": 100, "memory": "none", "compute": "none"}
    assert node.records() == sorted(f"{n}.json" for p in (a, b) for n in node.names(p))
    shown = [line.split()[:5] for line in node.inspect().splitlines() if line.strip().startswith("share.")]
    assert sorted(shown) == sorted([*node.names(p), *sizes] for p, sizes in ((a, ["3000", "MiB", "30", "%"]), (b, [str(CARD_MIB // 2), "MiB", "0", "%"])))
    node.end(a)
    node.end(b)
    wait_for(lambda: node.records() == [] and not node.told(), 30, "the shares to go")
    node.kubelet.wait_offers(**{GPU: 10})


def test_a_pod_without_sizes_has_a_card_alone(pair):
    whole = pair.pod("whole")
    assert pair.env(whole)["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{CARD_MIB}m"
    parts = [pair.pod(f"part-{i}", gpumem=1000) for i in range(3)]
    assert {pair.card_of(p) for p in parts} == {1 - pair.card_of(whole)}


def test_the_shares_of_a_container_are_on_different_cards(pair):
    pod = pair.pod("two", n=2, gpumem=3000, gpucores=30)
    assert {pair.card_of(pod, 0), pair.card_of(pod, 1)} == {0, 1}
    assert pair.env(pod, 0)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert pair.env(pod, 1)["CUDA_DEVICE_MEMORY_LIMIT_1"] == "3000m"


def test_what_does_not_fit_waits_and_is_told_the_nearest_miss(node):
    first = node.pod("first", gpumem=80000)
    node.env(first)
    late = node.pod("late", gpumem=3000)
    said = wait_for(lambda: node.trouble(late), 30, "an Event")
    assert "3000 MiB" in said and "1559" in said, said
    assert node.host.spec().get(node.names(late)[0]) is None, "no container starts without its share"
    node.end(first)
    assert node.env(late)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert node.measured() == 1, "the first alone: the other one waited for room"


def test_the_schedulers_choice_holds_within_what_the_container_asks(pair):
    def record(card, mib, percent):
        share = {"u": pair.node.uuid(card), "m": mib, "c": percent}
        return {RECORD: json.dumps({"v": 1, "c": [{"n": "main", "s": [share]}], "p": 0})}

    for i in range(3):
        assert pair.card_of(pair.pod(f"good-{i}", annotations=record(1, 3000, 30), gpumem=3000, gpucores=30)) == 1
    forged = pair.pod("forged", annotations=record(1, 9000, 30), gpumem=3000, gpucores=30)
    said = wait_for(lambda: pair.trouble(forged), 30, "an Event")
    assert "gives 9000 MiB" in said and "asks for 3000" in said, said
    full = pair.pod("full", annotations=record(1, 3000, 30), gpumem=3000, gpucores=30)
    said = wait_for(lambda: pair.trouble(full), 30, "an Event")
    assert "10 %" in said, said


def test_shares_outlive_the_agent(node):
    pods = [node.pod(f"p{i}", gpumem=20000) for i in range(3)]
    specs = [node.env(p) for p in pods]
    wait_for(lambda: len(node.told()) == 3, 30, "the shares to be told")
    node.node.agent.kill()
    node.host.start()
    node.kubelet.wait_offers(**{GPU: 10})
    assert [node.env(p) for p in pods] == specs
    late = node.pod("late", gpumem=30000)
    assert "21559" in wait_for(lambda: node.trouble(late), 30, "an Event"), "what was given before counts"


def test_a_card_with_shares_is_cut_only_when_they_are_gone(node):
    pod = node.pod("a", gpumem=3000)
    wait_for(lambda: node.told(), 30, "the share to be told")
    node.node.want(mig(node.node.uuid(), {"1g.10gb": 7}))
    told = node.node.wait_applied("InUse")
    assert pod.name in told["message"], told
    assert node.node.placements() == []
    node.end(pod)
    node.node.wait_layout({"1g.10gb": 7})
    node.kubelet.wait_offers(**{"nvidia.com/mig-1g.10gb": 7})


def test_a_whole_card_of_before_counts_as_full_until_its_pod_ends(rig, kubelet):
    host = Host(rig, kubelet, {"h100-80": 2}, slots=True).start()
    kubelet.wait_offers(**{GPU: 2})
    pod = kubelet.admit("research", "train-0", {GPU: 1})
    held = pod.devices[GPU][0]
    host.node.want(*(fractional(host.node.uuid(i)) for i in range(2)))
    kubelet.wait_offers(**{GPU: 10})
    assert held in kubelet.devices(GPU), "the kubelet knows what its pod holds"
    kubelet.end(pod)
    kubelet.wait_offers(**{GPU: 20})
    assert held not in kubelet.devices(GPU)


def test_cards_that_nobody_shares_give_themselves_whole(rig, kubelet):
    host = Host(rig, kubelet, {"h100-80": 2}, slots=True).start()
    kubelet.wait_offers(**{GPU: 2})
    host.node.want(fractional(host.node.uuid(0), maxShares=4))
    kubelet.wait_offers(**{GPU: 5})
    host.node.wait_applied("Applied")  # what is offered is told a moment later
    assert "fractional" not in host.node.card(1)


def test_a_card_is_whole_again_only_when_its_shares_are_gone(node):
    pod = node.pod("a", gpumem=3000)
    wait_for(lambda: node.told(), 30, "the share to be told")
    node.node.want({"uuid": node.node.uuid(), "mode": "native"})
    wait_for(lambda: node.kubelet.offers()[GPU] == (1, 2), 30, "the share alone to be left, and the card to be listed")
    assert sorted(node.kubelet.devices(GPU)) == sorted([node.node.uuid(), *pod.devices[GPU]])
    node.end(pod)
    wait_for(lambda: list(node.kubelet.devices(GPU)) == [node.node.uuid()], 30, "the card alone to be offered")
    node.kubelet.wait_offers(**{GPU: 1})


def test_an_agent_that_takes_over_keeps_the_shares_and_gives_what_is_left(node):
    first = node.pod("first", gpumem=50000, gpucores=30)
    wait_for(lambda: node.told(), 30, "the share to be told")
    share, records = node.env(first), node.records()
    old = node.node.agent
    with node.kubelet.lock:
        node.kubelet.history.clear()
    new = stand_by(lambda: node.host.start(name="next", **node.flags).node.agent)
    hand_over(old, new)
    assert node.kubelet.went_to_zero() == set()
    assert node.records() == records and node.env(first) == share
    wait_for(lambda: node.kubelet.plugin(GPU).is_reachable(), 30, "the kubelet to have the agent that works")
    large, small = node.pod("large", gpumem=40000), node.pod("small", gpumem=30000)
    assert node.env(small)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "30000m"
    wait_for(lambda: "needs 40000 MiB on one card" in node.trouble(large), 30, "the one that does not fit to be told of")


def new_pod(rig, limits, annotations=None, **container):
    container = {"name": "main", "image": "none", "resources": {"limits": limits}, **container}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{rig.id}-a", "annotations": annotations or {}}, "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({MEMORY: "3000"}, "container main names the size of a share and no share: write nvidia.com/gpu: 1 beside it"),
        ({CORES: "30"}, "write nvidia.com/gpu: 1 beside it"),
        ({GPU: "1", MEMORY: "3Gi"}, "container main: nvidia.com/gpumem counts MiB; for 3221225472 bytes write 3072"),
        ({GPU: "1", MEMORY: "40Mi"}, "container main: nvidia.com/gpumem counts MiB; for 41943040 bytes write 40"),
        ({GPU: "1", MEMORY: "100E"}, "container main: nvidia.com/gpumem counts MiB"),
    ],
)
def test_a_pod_that_cannot_be_meant_is_not_made(rig, limits, said):
    with pytest.raises(ApiError, match=re.escape(said)):
        rig.api.create(PODS, new_pod(rig, limits))


def test_a_privileged_container_gets_no_share(rig):
    """It would see every card of the node. One with a whole card is Pod Security's matter."""
    privileged = {"securityContext": {"privileged": True}}
    with pytest.raises(ApiError, match="container main asks for a share and is privileged"):
        rig.api.create(PODS, new_pod(rig, {GPU: "1", MEMORY: "3000"}, **privileged))
    rig.api.create(f"{PODS}?dryRun=All", new_pod(rig, {GPU: "1"}, **privileged))


@pytest.mark.parametrize(
    ("key", "bad", "good"),
    [
        ("nvidia.com/numa-bind", ["maybe"], ["true", "F", ""]),
        ("nvidia.com/vgpu-mode", ["time-slicing"], ["hami-core", "mig"]),
        ("nvidia.com/use-gputype", [",", " , ", "x" * 4097], ["A100,H100", " "]),
        ("nvidia.com/nouse-gpuuuid", [","], ["GPU-a"]),
        ("hami.io/node-scheduler-policy", ["fullest"], ["binpack"]),
        ("hami.io/gpu-scheduler-policy", ["binpak", ","], ["numa, binpack", "numa,,spread"]),
        ("hami.io/device-scoring-weights", ["slot=1", "slot=1,core=1,slot=1", "slot=1,core=1,memory=1001"], ["memory = 3, slot=1 ,core=01000"]),
    ],
)
def test_an_annotation_that_cannot_be_meant_makes_no_pod(rig, key, bad, good):
    for value in bad:
        with pytest.raises(ApiError, match=f"the annotation {key}"):
            rig.api.create(PODS, new_pod(rig, {GPU: "1"}, {key: value}))
        rig.api.create(f"{PODS}?dryRun=All", new_pod(rig, {"cpu": "1"}, {key: value}))  # of no card
    for value in good:
        rig.api.create(f"{PODS}?dryRun=All", new_pod(rig, {GPU: "1"}, {key: value}))


@pytest.mark.parametrize(
    ("limits", "annotations", "said"),
    [
        ({GPU: "1", CORES: "150"}, {}, "container main asks for more than 100 percent: it counts as 100"),
        ({GPU: "1"}, {"gpu.cleave.dev/clamped": "container main: less"}, "container main: less"),
    ],
)
def test_what_counts_as_less_is_told_in_a_warning(rig, limits, annotations, said):
    made = rig.cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(new_pod(rig, limits, annotations)))
    assert said in made.stderr, made.stderr
    quiet = rig.cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(new_pod(rig, {GPU: "1", CORES: "100"})))
    assert "percent" not in quiet.stderr


# --- what is killed ---


def given(node):
    """What the records give of each card."""
    sums = {}
    for record in slot_records(node.node.folder):
        mib, percent, shares = sums.get(record["card"], (0, 0, 0))
        sums[record["card"]] = (mib + record["memoryMiB"], percent + record["computePercent"], shares + 1)
    return sums


def assert_within(node):
    for card, (mib, percent, shares) in given(node).items():
        assert mib <= CARD_MIB and percent <= 100 and shares <= 10, f"{card}: {mib} MiB, {percent} %, {shares} shares"


def wait_serving(node, what):
    wait_for(lambda: all(node.kubelet.plugin(name).is_reachable() for name in BOTH), 30, what)


def step(node, rng, pods):
    """Something happens: a pod comes or goes, the agent or the kubelet is killed."""
    chance = rng.random()
    if chance < 0.5 and len(pods) < 12:
        mib, percent = rng.choice([1000, 9000, 30000, 60000]), rng.choice([0, 10, 40])
        kind, name = rng.random(), f"p{next(node.numbers)}"
        with contextlib.suppress(Refused, grpc.RpcError):  # no slot, the agent is away, or the slot's last share is not gone yet
            if kind < 0.1:
                pods.append(node.pod(name))
            elif kind < 0.7:
                pods.append(node.pod(name, gpumem=mib, gpucores=percent))
            else:
                pods.append(node.koordinator_pod(name, mib, percent))
    elif chance < 0.8 and pods:
        node.end(pods.pop(rng.randrange(len(pods))))
    elif chance < 0.9:
        node.node.agent.kill()
        node.host.start(**node.flags)
        wait_serving(node, "the new agent to register")
    else:
        node.kubelet.restart(kill=rng.random() < 0.5)
        wait_serving(node, "the agent to register again")


def has_its_share(node, pod):
    """The pod's name leads to what its record says."""
    (name,) = node.names(pod)
    edits = node.host.spec().get(name)
    try:
        record = json.loads((node.node.folder / "state" / "slots" / f"{name}.json").read_text())
    except FileNotFoundError:
        return False
    return edits and record["pod"] == pod.name and f"CUDA_DEVICE_MEMORY_LIMIT_0={record['memoryMiB']}m" in edits["env"]


def test_no_card_is_given_twice_whatever_is_killed(rig, kubelet):
    """By neither of the two names that one card's shares have."""
    pair = Shares(rig, kubelet, cards=2, flags={"koordinator_shares": "on"})
    rng = random.Random(SEED)
    pair.numbers = itertools.count()
    pods = []
    for _ in range(10000 if os.environ.get("CLEAVE_TORTURE") else 40):
        step(pair, rng, pods)
        assert_within(pair)
    while pods:  # the longer one waits the more room there is
        wait_for(lambda: any(has_its_share(pair, p) for p in pods), PODS_END_S, "one of the pods to have its share")
        done = [p for p in pods if has_its_share(pair, p)]
        assert_within(pair)
        for pod in done:
            pair.end(pod)
        pods = [p for p in pods if p not in done]
    wait_for(lambda: pair.records() == [] and pair.host.spec() == {}, PODS_END_S, lambda: f"nothing to be left, not {pair.records()}")
    pair.kubelet.wait_offers(**{GPU: 20, KOORDINATOR_SHARE: 20})
