# SPDX-License-Identifier: Apache-2.0
"""Shares of NVIDIA's cards on a node with a real kube-scheduler, kubelet, containerd and runc: the pods of HAMi's manual, as they
are written there, and their rules. Kube-scheduler knows the sums of a node, and the agent chooses the card, where the pod is not one of
cleave-scheduler's."""

import itertools
import os
import random

import pytest
from conftest import ROOT, wait_for
from extender import scheduler
from kubelet_rig import IMAGE, PODS, SAID_ALL, RealNode, real_cluster, real_rig  # noqa: F401
from stack import slot_records

pytestmark = pytest.mark.second_cluster

GPU = "nvidia.com/gpu"
OURS = "cleave-scheduler"
LOOK = f"find /dev -name 'nvidia[0-9]*' | sort; env | grep -E 'CUDA_|NVIDIA_VISIBLE' | sort; echo {SAID_ALL}"
RUN = f"trap 'exit 0' TERM; {LOOK}; sleep 3600 & wait"
CARD_MIB = 81559


@pytest.fixture
def node(real_rig):
    """Two H100 that give up to ten shares each, and our controller, which publishes what they have together."""
    n = real_rig.node({"h100-80": 2}, slots=True)
    n.wait_offers()  # what the agent of the test before offered is off the Node
    n.start()
    wait_for(lambda: n.agrees(), 30, "the agent")
    real_rig.controller()
    real_rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
    n.wait_offers(**sums(2))
    return n


@pytest.fixture
def scheduled(node):
    """The same, and cleave-scheduler with a kube-scheduler beside it: for pods whose schedulerName is OURS."""
    with scheduler(node.rig) as node.scheduler:
        yield node


def sums(cards):
    return {GPU: 10 * cards, "nvidia.com/gpucores": 100 * cards, "nvidia.com/gpumem": CARD_MIB * cards, "nvidia.com/gpumem-percentage": 100 * cards}


def limits(n=1, **more):
    return {GPU: str(n), **{f"nvidia.com/{k.replace('_', '-')}": str(v) for k, v in more.items()}}


def seen(node, pod):
    """What the pod sees: the cards, and its variables."""
    lines = node.said(pod)
    return [line for line in lines if line.startswith("/dev/")], dict(line.split("=", 1) for line in lines if "=" in line)


def told(node):
    """Pods by the index of their shares' cards."""
    return node.shares_told("index")


def test_the_sample_gives_out_cards(real_rig):
    n = real_rig.node({"h100-80": 1}, labels={"pool": "notebooks"}, slots=True)
    n.wait_offers()
    n.start()
    wait_for(lambda: n.agrees(), 30, "the agent")
    real_rig.controller()
    sample = ROOT / "config" / "samples" / "fractional.yaml"
    real_rig.cluster.kubectl("apply", "-f", sample)
    try:
        n.wait_offers(**{**sums(1), GPU: 20, "nvidia.com/gpucores": 200})
        assert n.labels()["nvidia.com/gpu.sharing-strategy"] == "fractional"
    finally:
        real_rig.cluster.kubectl("delete", "-f", sample)
        n.label(pool=None)
    n.wait_offers(**{GPU: 1})


def test_the_pod_of_hamis_manual(node):
    pod = node.run("gpu-pod", RUN, limits(2, gpumem=3000, gpucores=30))
    node.wait_phase(pod, "Running")
    cards, env = seen(node, pod)
    assert cards == ["/dev/nvidia0", "/dev/nvidia1"]
    assert env == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    wait_for(lambda: told(node) == {pod: [(0, 3000, 30), (1, 3000, 30)]}, 30, lambda: f"the shares, not {told(node)}")
    node.delete(pod)
    wait_for(lambda: not told(node), 30, "the shares to go")


def test_pods_share_a_card_and_their_first_attempt_starts(node):
    pods = [node.run(f"p{i}", RUN, limits(gpumem=8000)) for i in range(10)]
    for pod in pods:
        node.wait_phase(pod, "Running", timeout=60)
    wait_for(lambda: sorted(told(node)) == sorted(pods), 30, lambda: f"the shares, not {told(node)}")
    for index in (0, 1):
        shares = [s for pod in told(node).values() for s in pod if s[0] == index]
        assert sum(s[1] for s in shares) <= CARD_MIB
    restarts = [node.container(pod)["restartCount"] for pod in pods]
    assert restarts == [0] * 10
    failed = {pod: [e.get("note") for e in node.rig.events(pod, "Failed")] for pod in pods}  # a container that could not be made counts as no restart
    assert failed == {pod: [] for pod in pods}


# A container's view of what it has in common with the agent, as its root.
LOOK_AT_LIMITS = """
grep -E ' /run/cleave| /usr/(lib/cleave|.*/lib(cuda|nvidia-ml)[.]so)' /proc/self/mountinfo | sed -E 's/^([^ ]+ ){4}([^ ]+) ([^ ]+).*/mount \\2 \\3/'
ls /run/cleave
cat /usr/local/nvidia/lib64/libcuda.so.1
{ echo x >/run/cleave/terms; } 2>/dev/null && echo 'terms were written'
{ echo x >/run/cleave/more; } 2>/dev/null && echo 'a file was made'
{ rm /run/cleave/usage; } 2>/dev/null && echo 'usage was removed'
dd if=/dev/zero of=/run/cleave/usage bs=1 count=1 seek=4096 conv=notrunc 2>/dev/null && echo 'usage was written'
ls -i /run/cleave/terms
"""


def test_a_container_with_a_share_has_its_limits_and_the_limiter(real_rig):
    n = real_rig.node({"h100-80": 1}, slots=True)
    n.wait_offers()
    root = n.folder / "limiter"
    for folder in ("image", "shares"):
        (root / folder).mkdir(parents=True)
    for name in ("libcleave-cuda.so", "libcleave-nvml.so"):
        (root / "image" / name).write_text("the limiter\n")
    n.start(limiter_folder=root / "image", library_folder=root / "lib", share_folder=root / "shares")
    wait_for(lambda: n.agrees(), 30, "the agent")
    real_rig.controller()
    real_rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
    n.wait_offers(**sums(1))
    pod = n.run("limited", f"trap 'exit 0' TERM; {LOOK_AT_LIMITS}\necho {SAID_ALL}; sleep 3600 & wait", limits(gpumem=3000), restart="Always")
    n.wait_phase(pod, "Running", timeout=60)
    said = n.said(pod)
    mounts = dict(line.split()[1:] for line in said if line.startswith("mount "))
    assert [path for path, how in mounts.items() if how.split(",")[0] == "rw"] == ["/run/cleave/usage"], mounts
    assert {"/run/cleave", "/usr/lib/cleave/real/libcuda.so.1", "/usr/lib/cleave/real/libnvidia-ml.so.1"} <= set(mounts)
    rest = [line for line in said if not line.startswith("mount ")]
    assert rest[:5] == ["agent", "terms", "usage", "the limiter", "usage was written"], rest
    (share,) = (root / "shares").iterdir()
    assert rest[5].split() == [str((share / "terms").stat().st_ino), "/run/cleave/terms"]
    wait_for(lambda: n.card(0).get("fractional", {}).get("memory") == "library", 30, "the level to be told")
    n.delete(pod)
    wait_for(lambda: not any((root / "shares").iterdir()), 60, "the folder to go")


def test_a_whole_card_is_shared_with_nobody(node):
    whole = node.run("whole", RUN, limits())
    node.wait_phase(whole, "Running")
    parts = [node.run(f"part-{i}", RUN, limits(gpumem=1000)) for i in range(3)]
    for pod in parts:
        node.wait_phase(pod, "Running")
    (card,) = seen(node, whole)[0]
    assert all(seen(node, pod)[0] != [card] for pod in parts)


def test_more_memory_than_the_node_has_stays_pending(node):
    pod = node.run("greedy", RUN, limits(gpumem=CARD_MIB * 3))
    wait_for(lambda: "Insufficient nvidia.com/gpumem" in node.why(pod), 30, "the scheduler's reason")
    assert node.phase(pod) == "Pending"


# Of two cards: sizes, and how they are told.
THREE = [({}, "100 % of the memory and 100 % of compute"), ({"gpumem": 1000}, "1000 MiB")]


def test_more_cards_than_the_node_has_stay_pending(scheduled):
    """The sums have room for them: slots, and the MiB of one share."""
    greedy = {scheduled.run("greedy", RUN, limits(3, **sizes), schedulerName=OURS): each for sizes, each in THREE}
    for pod, each in greedy.items():
        wait_for(lambda p=pod, e=each: f"needs 3 cards with {e} each; 2 of 2 fit" in scheduled.why(p), 30, lambda p=pod: f"the reason: {scheduled.why(p)}")
    modest = scheduled.run("modest", RUN, limits(2, gpumem=1000), schedulerName=OURS)
    scheduled.wait_phase(modest, "Running", timeout=60)
    for pod in map(scheduled.api.get, map(scheduled.pod_path, greedy)):
        assert pod["status"]["phase"] == "Pending" and "nodeName" not in pod["spec"]


def test_more_cards_than_the_node_has_are_not_made_for_a_pod_that_was_bound_by_sums(node):
    greedy = {node.run("greedy", RUN, limits(3, **sizes)): each for sizes, each in THREE}
    for pod, each in greedy.items():
        notes = wait_for(lambda p=pod: [e["note"] for e in node.rig.events(node.name, "ShareNotMade") if p in e["note"]], 30, "an Event")
        assert f"needs 3 cards with {each} each; 2 of 2 fit" in notes[0], notes
    modest = node.run("modest", RUN, limits(2, gpumem=1000))
    node.wait_phase(modest, "Running", timeout=60)
    assert [node.phase(pod) for pod in greedy] == ["Pending"] * 2


def test_what_fits_the_sum_and_no_card_waits_for_room(node):
    first = [node.run(f"first-{i}", RUN, limits(gpumem=50000)) for i in range(2)]
    for pod in first:
        node.wait_phase(pod, "Running")
    late = node.run("late", RUN, limits(gpumem=40000))
    notes = wait_for(lambda: [e["note"] for e in node.rig.events(node.name, "ShareNotMade") if late in e["note"]], 30, "an Event")
    assert "needs 40000 MiB on one card; the best of 2 has 31559" in notes[0], notes
    assert node.phase(late) == "Pending"
    node.delete(first[0])
    node.wait_phase(late, "Running", timeout=60)


def test_an_init_container_has_its_share_too(node):
    share = {"resources": {"limits": limits(gpumem=2000)}, "image": IMAGE, "imagePullPolicy": "Never"}
    init = {"name": "init", "command": ["sh", "-c", LOOK], **share}
    pod = node.run("init", LOOK, limits(gpumem=2000), initContainers=[init])
    node.wait_phase(pod, "Succeeded", timeout=60)
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=2000m" in node.log(pod)


def test_a_pod_with_a_nodes_name_is_placed_by_the_agent(node):
    pod = node.run("bound", RUN, limits(gpumem=3000), nodeName=node.name)
    node.wait_phase(pod, "Running")
    assert seen(node, pod)[1]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"


def test_containers_start_again_on_the_same_card_whoever_was_restarted(node):
    pods = [node.run(f"p{i}", f"trap 'exit 1' TERM; {LOOK}; sleep 3600 & wait", limits(gpumem=20000), restart="Always") for i in range(2)]
    for pod in pods:
        node.wait_phase(pod, "Running")
    wait_for(lambda: len(told(node)) == 2, 30, "the shares to be told")
    before = told(node)
    node.agent.kill()
    node.kill("containerd")
    node.restart_kubelet()
    node.start()
    wait_for(lambda: node.agrees(), 60, "the agent")
    for pod in pods:
        node.wait_phase(pod, "Running", timeout=60)
    wait_for(lambda: told(node) == before, 60, lambda: f"the shares as before, not {told(node)}")


# --- what is killed ---

SEED = 20261127
STEPS = 200 if os.environ.get("CLEAVE_TORTURE") else 4
SIZES = [limits(gpumem=1000), limits(gpumem=9000, gpucores=10), limits(2, gpumem=20000), limits(gpumem=60000, gpucores=40), limits()]
CROWD = 8  # pods at a time


def restart_agent(node):
    node.agent.kill()
    node.agent.start()


def restart_containerd(node):
    node.kill("containerd")
    node.up()


def restart_scheduler(node):
    node.scheduler.extender.kill()
    node.scheduler.extender.start()


KILLED = [restart_agent, RealNode.restart_kubelet, restart_containerd, restart_scheduler]


class Crowd:
    """Pods with shares that come and go."""

    def __init__(self, node):
        self.node, self.rng, self.asked = node, random.Random(SEED), {}  # {pod: its limits}, of those that are to run

    def come(self, asked):
        self.asked[self.node.run("crowd", RUN, asked, restart="Always", schedulerName=OURS)] = asked

    def go(self, pod):
        """Asks for it alone. Returns what the pod asked for."""
        self.node.api.delete(self.node.pod_path(pod))
        return self.asked.pop(pod)

    def come_and_go(self):
        for _ in range(3):
            self.come(self.rng.choice(SIZES))
        while len(self.asked) > CROWD:
            self.go(self.rng.choice(list(self.asked)))

    def in_phase(self, phase):
        """{pod: its status}"""
        listed = self.node.api.get(f"{PODS}?labelSelector=test={self.node.rig.id}")["items"]
        pods = {p["metadata"]["name"]: p["status"] for p in listed}
        return {name: status for name, status in pods.items() if name in self.asked and status.get("phase") == phase}

    def replace_refused(self):
        """As their ReplicaSet does it: a kubelet ends a pod that it comes to admit while no plugin is registered."""
        for pod, status in self.in_phase("Failed").items():
            reason = status.get("reason", "")
            assert reason == "UnexpectedAdmissionError" or reason.startswith("OutOfnvidia.com/"), status
            self.come(self.go(pod))

    def check(self):
        """No card is given out beyond what it has, and whoever runs has all its shares. Who runs is asked first: a share is there before."""
        running = self.in_phase("Running")
        found = slot_records(self.node.folder)
        for card in {r["card"] for r in found}:
            mib, percent = (sum(r[size] for r in found if r["card"] == card) for size in ("memoryMiB", "computePercent"))
            assert mib <= CARD_MIB and percent <= 100 and sum(r["card"] == card for r in found) <= 10, found
        shares = {pod: len({r["card"] for r in found if r["pod"] == pod}) for pod in running}
        assert shares == {pod: int(self.asked[pod][GPU]) for pod in running}, found

    def run_out(self):
        """All run in the end: those that do make room for the others."""

        def running():
            self.replace_refused()
            return self.in_phase("Running")

        while self.asked:
            done = wait_for(running, 120, lambda: f"one of these to run: {[self.node.why(pod) for pod in self.asked]}")
            self.check()
            for pod in done:
                self.go(pod)


@pytest.mark.long
def test_no_card_is_given_twice_whoever_is_killed(scheduled):
    """Each in turn, while pods are on their way. CLEAVE_TORTURE=1: for minutes."""
    crowd = Crowd(scheduled)
    for restart in itertools.islice(itertools.cycle(KILLED), STEPS):
        crowd.come_and_go()
        restart(scheduled)
        crowd.replace_refused()
        crowd.check()
    crowd.run_out()
    wait_for(lambda: slot_records(scheduled.folder) == [], 60, lambda: f"nothing to be left, not {slot_records(scheduled.folder)}")
    scheduled.wait_offers(timeout=60, **sums(2))
