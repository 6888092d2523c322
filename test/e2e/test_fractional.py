# SPDX-License-Identifier: Apache-2.0
"""Shares of NVIDIA's cards on a node with a real kube-scheduler, kubelet, containerd and runc: the pods of HAMi's manual, as they
are written there, and their rules. Kube-scheduler knows the sums of a node, and the agent chooses the card."""

import pytest
from conftest import ROOT, wait_for
from kubelet_rig import IMAGE, SAID_ALL, real_cluster, real_rig  # noqa: F401

GPU = "nvidia.com/gpu"
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


def test_a_whole_card_is_shared_with_nobody(node):
    whole = node.run("whole", RUN, limits())
    node.wait_phase(whole, "Running")
    parts = [node.run(f"part-{i}", RUN, limits(gpumem=1000)) for i in range(3)]
    for pod in parts:
        node.wait_phase(pod, "Running")
    (card,) = seen(node, whole)[0]
    assert all(seen(node, pod)[0] != [card] for pod in parts)


def test_more_cards_than_the_node_has_stay_pending(node):
    pod = node.run("greedy", RUN, limits(gpumem=CARD_MIB * 3))
    wait_for(lambda: "Insufficient nvidia.com/gpumem" in node.why(pod), 30, "the scheduler's reason")
    assert node.phase(pod) == "Pending"


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
