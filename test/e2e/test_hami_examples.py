# SPDX-License-Identifier: Apache-2.0
"""Each pod of HAMi's examples for NVIDIA's cards (HAMi examples/nvidia, v2.10, 4707fb02), and where it ends here: what it says of cards
as there, with another image and no command. They come through the webhook, and a stock kube-scheduler with cleave-scheduler beside it
places them. Deployments are the pods that they make; the volumes of vllm_cross_vgpu are left out.

Nodes without a kubelet: hopper has two H100 and ampere two A100 that are given out in shares, plain has four L4 that are not.
"""

import contextlib
import itertools
import json
import os

import pytest
from conftest import ROOT, Processes, wait_for
from extender import scheduler
from kubelet_rig import IMAGE, real_cluster, real_rig  # noqa: F401
from kubelet_work import GPU, PODS
from share_defaults import DEFAULT, OURS
from stack import Rig, condition, install
from test_fractional import RUN, limits, seen, told
from test_scheduler import RECORD, Node, real_node
from test_webhook import Webhook

pytestmark = pytest.mark.second_cluster

FLEETS = {"hopper": {"h100-80": 2}, "ampere": {"a100-80": 2}, "plain": {"l4": 4}}
OFFERS = {"hopper": (20, 200), "ampere": (20, 200), "plain": (4, 0)}  # nvidia.com/gpu and gpucores
SHARED = ("hopper", "ampere")


# --- a pod, and its end ---


def asks(for_what, notes=None, requests=None, **spec):
    return {"notes": notes or {}, "resources": {"limits": for_what, **({"requests": requests} if requests else {})}, "spec": spec}


def gets(*sizes, on=SHARED):
    """A record of these shares, each on a card of its own: (MiB, or percent of the card's memory; percent of its compute)."""

    def check(cards, pod):
        kind = cards.wait_node(pod)
        given = json.loads(cards.get(pod)["metadata"]["annotations"][RECORD])["c"]
        (shares,) = (c["s"] for c in given)
        assert kind in on
        assert [(s["m"], s["c"]) for s in shares] == [(cards.mib(kind, memory), compute) for memory, compute in sizes]
        assert len({s["u"] for s in shares} & set(cards.uuids[kind])) == len(sizes)

    return check


def gets_whole_cards(cards, pod):
    """On the node that gives no shares: the pod does not say which cards, so that the kubelet may choose. There is no record."""
    assert cards.wait_node(pod) == "plain"
    assert RECORD not in cards.get(pod)["metadata"].get("annotations", {})


def waits(why):
    """It stays Pending, and says so."""

    def check(cards, pod):
        wait_for(lambda: why in cards.why(pod), 60, lambda: f"{pod} to wait since {why!r}, not {cards.why(pod)!r}")
        spec = cards.get(pod)["spec"]
        assert spec["schedulerName"] == OURS and "nodeName" not in spec

    return check


def is_left_alone(cards, pod):
    """A partition has a name of its own, in mode mig as with NVIDIA's plugin: any scheduler counts it."""
    spec = cards.get(pod)["spec"]
    assert spec["schedulerName"] == DEFAULT and GPU not in spec["containers"][0]["resources"]["limits"]


# --- the examples ---

USE_MODEL, NO_MODEL, USE_UUID, NO_UUID = (f"nvidia.com/{word}" for word in ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid"))
THEIR_UUIDS = ["GPU-03f69c50-207a-2038-9b45-23cac89cb67d", "GPU-03f69c50-207a-2038-9b45-23cac89cb67e"]
TOLERATES = {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]}
ALL = ("100 %", 100)
THIRD = limits(2, gpumem_percentage=30, gpucores=30)

# By the name of the file: its pods, and the end of each.
EXAMPLES = {
    "default_use": [(asks(limits(gpumem=3000, gpucores=30)), gets((3000, 30)))],
    "default_use_legacy": [(asks(limits(2)), gets_whole_cards)],
    "dynamic_mig_example": [
        (
            asks(limits(2, gpumem=8000), {"nvidia.com/vgpu-mode": "mig", "hami.io/gpu-scheduler-policy": "binpack"}),
            waits("annotation nvidia.com/vgpu-mode asks for cards that are shared in another way, and this scheduler gives shares by limits: leave it out"),
        )
    ],
    "example": [(asks(limits(gpumem=3000), schedulerName=DEFAULT, **TOLERATES), gets((3000, 0)))],
    "mig_example": [(asks({"nvidia.com/mig-3g.20gb": "1"}), is_left_alone)],
    "specify_card_type_not_use": [(asks(limits(2), {NO_MODEL: "1080,2080"}), gets(ALL, ALL))],
    "specify_card_type_to_use": [(asks(limits(2), {USE_MODEL: "A100,V100"}), gets(ALL, ALL, on=["ampere"]))],
    "specify_scheduling_policy": [(asks(limits(), {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"}), gets_whole_cards)],
    "specify_uuid_not_use": [(asks(limits(2), {NO_UUID: THEIR_UUIDS[0]}), gets(ALL, ALL))],
    "specify_uuid_to_use": [(asks(limits(), {USE_UUID: ",".join(THEIR_UUIDS)}), waits("not among those that the pod names"))],
    "use_as_normal": [(asks(limits()), gets_whole_cards), (asks(limits()), gets_whole_cards)],
    # It names percentages, which a node without shares does not offer.
    "use_exclusive_card": [(asks(limits(2, gpumem_percentage=100, gpucores=100)), gets(ALL, ALL))],
    "use_memory_fraction": [(asks(limits(2, gpumem_percentage=50, gpucores=30)), gets(("50 %", 30), ("50 %", 30)))],
    "use_sharing_card": [
        (asks(limits(gpumem_percentage=40, gpucores=60)), gets(("40 %", 60))),
        (asks(limits(gpumem_percentage=60, gpucores=40)), gets(("60 %", 40))),
    ],
    "vllm_cross_vgpu": [
        (
            asks({**THIRD, "cpu": "8", "memory": "20Gi"}, requests={**THIRD, "cpu": "2", "memory": "6Gi"}, schedulerName=DEFAULT, **TOLERATES),
            gets(("30 %", 30), ("30 %", 30)),
        )
    ],
}

# The same with models and cards of these nodes, which HAMi's files cannot know: {hopper[0]} stands for the UUID of its first card.
WITH_CARDS_OF_OURS = {
    "specify_card_type_not_use, of one node": [(asks(limits(2), {NO_MODEL: "a100,2080"}), gets(ALL, ALL, on=["hopper"]))],
    "specify_card_type_to_use, of no node": [(asks(limits(2), {USE_MODEL: "B200,V100"}), waits("are of another model"))],
    "specify_uuid_not_use, of one node": [(asks(limits(2), {NO_UUID: "{hopper[0]},{hopper[1]}"}), gets(ALL, ALL, on=["ampere"]))],
    "specify_uuid_to_use, of one node": [(asks(limits(), {USE_UUID: "{hopper[0]},{hopper[1]}"}), gets(ALL, on=["hopper"]))],
}


# --- the nodes ---


class Cards:
    """Nodes, our controller and agents, the webhook and the scheduler. No kubelet admits what is bound, so that all that a pod was given
    is free as soon as it is deleted."""

    def __init__(self, rig, stack):
        self.rig, self.numbers, self.pods = rig, itertools.count(1), []
        rig.controller()
        self.nodes = {kind: Node(rig, fleet) for kind, fleet in FLEETS.items()}
        for n in self.nodes.values():
            stack.callback(n.kubelet.stop)
        for kind in SHARED:
            self.nodes[kind].node.label(shares=rig.id)
        devices = {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}}
        rig.profile("shares", devices, nodeSelector={"matchLabels": {"shares": rig.id}})
        wait_for(lambda: self.offers() == OFFERS, 60, lambda: f"the nodes to offer {OFFERS}, not {self.offers()}")
        wait_for(lambda: all(n.node.agrees() for n in self.nodes.values()), 60, "the agents")
        self.uuids = {kind: [n.uuid(i) for i in range(sum(FLEETS[kind].values()))] for kind, n in self.nodes.items()}
        Webhook(rig).start()
        stack.enter_context(scheduler(rig))

    def offers(self):
        """As kubelets find it at their plugins, and our controller publishes it."""
        found = {}
        for kind, n in self.nodes.items():
            n.work.offer()
            given = self.rig.api.get(n.path)["status"]["allocatable"]
            found[kind] = int(given.get(GPU, 0)), int(given.get("nvidia.com/gpucores", 0))
        return found

    def mib(self, kind, memory):
        """"40 %" is of a card of this node."""
        if isinstance(memory, int):
            return memory
        return self.nodes[kind].node.card()["fractional"]["memoryMiB"] * int(memory.removesuffix(" %")) // 100

    def make(self, example):
        """Makes the pod, and returns its name."""
        name = f"{self.rig.id}-{next(self.numbers)}"
        notes = {key: value.format(**self.uuids) for key, value in example["notes"].items()}
        container = {"name": "main", "image": "none", "resources": example["resources"]}
        self.rig.objects.append(f"{PODS}/{name}")
        self.pods.append(name)
        self.rig.api.create(PODS, {"metadata": {"name": name, "annotations": notes}, "spec": {"containers": [container], **example["spec"]}})
        return name

    def get(self, pod):
        return self.rig.api.get(f"{PODS}/{pod}")

    def why(self, pod):
        """What the scheduler says of it."""
        return condition(self.get(pod), "PodScheduled").get("message", "")

    def wait_node(self, pod):
        """Which of the nodes cleave-scheduler binds the pod to."""
        spec = self.get(pod)["spec"]
        assert spec["schedulerName"] == OURS, "the webhook sends pods with cards there"
        bound = wait_for(lambda: self.get(pod)["spec"].get("nodeName"), 60, lambda: f"{pod} to be bound: {self.why(pod)!r}")
        return next(kind for kind, n in self.nodes.items() if n.node.name == bound)

    def clear(self):
        while self.pods:
            self.rig.api.delete(f"{PODS}/{self.pods.pop()}", now=True)


@pytest.fixture(scope="module")
def world(cluster, rundir, release):
    install(cluster)
    rig = Rig(cluster, Processes(rundir / "hami-examples"), release)
    with contextlib.ExitStack() as stack:
        stack.callback(rig.end)
        yield Cards(rig, stack)


@pytest.fixture
def cards(world, request):
    request.node.cleave_processes = world.rig.processes  # whose logs a failure shows
    yield world
    world.clear()


@pytest.fixture(autouse=True)
def threads_end():
    """Those of the kubelets' stubs serve until the last of these tests has ended, and may begin in any of them."""


@pytest.mark.parametrize("example", [*EXAMPLES, *WITH_CARDS_OF_OURS])
def test_a_pod_of_hamis_examples_ends_where_it_should(cards, example):
    made = [(cards.make(what), ends_well) for what, ends_well in {**EXAMPLES, **WITH_CARDS_OF_OURS}[example]]
    for name, ends_well in made:
        ends_well(cards, name)


# --- a real kubelet ---

# Those that two H100 cannot serve: of another model or UUID, or by MIG.
NOT_HERE = ("dynamic_mig_example", "mig_example", "specify_card_type_to_use", "specify_uuid_to_use")
SIZES = {"cpu", "memory"}  # of a machine that is larger than a test's


def run(node, example):
    """Makes the pod for the node's kubelet."""
    name = f"{node.rig.id}-example-{next(node.numbers)}"
    asked = {kind: {k: v for k, v in amounts.items() if k not in SIZES} for kind, amounts in example["resources"].items()}
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", RUN], "resources": asked}
    spec = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "containers": [container], **example["spec"]}
    node.rig.objects.append(node.pod_path(name))
    made = node.api.create(PODS, {"metadata": {"name": name, "labels": {"test": node.rig.id}, "annotations": example["notes"]}, "spec": spec})
    return name, made["spec"]


@pytest.mark.real_kubelet
@pytest.mark.skipif("KUBE_VERSION" not in os.environ, reason="make nightly runs it: API servers from 1.36 on add what these pods do not say")
def test_the_examples_that_two_cards_can_serve_run(real_rig):
    defaults = ROOT / "config" / "scheduler-defaults"
    real_rig.cluster.kubectl("apply", "-k", defaults)
    try:
        with real_node(real_rig) as node:
            node.numbers = itertools.count(1)
            wait_for(lambda: run(node, EXAMPLES["use_as_normal"][0][0])[1]["schedulerName"] == OURS, 30, "the policy to be asked")
            clear(node)
            for name in EXAMPLES.keys() - set(NOT_HERE):
                pods = [run(node, example) for example, _ in EXAMPLES[name]]
                for pod, spec in pods:
                    node.wait_phase(pod, "Running", timeout=60)
                    asked = spec["containers"][0]["resources"]["limits"]
                    cards, env = seen(node, pod)
                    assert len(cards) == int(asked[GPU]), (name, cards)
                    if memory := asked.get("nvidia.com/gpumem"):
                        assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == memory.replace("k", "000") + "m", (name, env)
                clear(node)
    finally:
        real_rig.cluster.kubectl("delete", "-k", defaults)


def clear(node):
    for path in [p for p in node.rig.objects if p.startswith(f"{PODS}/")]:
        node.api.delete(path)
        wait_for(lambda p=path: node.api.find(p) is None, 60, "the pod to be gone")
        node.rig.objects.remove(path)
    wait_for(lambda: not told(node), 30, "the shares to go")
