# SPDX-License-Identifier: Apache-2.0
"""Pods of gpushare's, as admission makes them (test_webhook.py, test_share_defaults.py): which cards they get, and what nodes and pods then
say in gpushare's words.

GPUSHARE_INSPECT names `kubectl inspect gpushare`, of a checkout of github.com/AliyunContainerService/gpushare-device-plugin in a GOPATH:
    GO111MODULE=off go build -o /tmp/kubectl-inspect-gpushare ./cmd/inspect
"""

import contextlib
import json
import os
import re
import shlex
import subprocess

import pytest
from conftest import ROOT, wait_for
from kubelet_rig import real_cluster, real_rig  # noqa: F401
from share_defaults import GIB
from stack import condition, rig  # noqa: F401
from test_fractional import CARD_MIB, RUN, limits, seen, told
from test_scheduler import World, real_node

pytestmark = pytest.mark.second_cluster

COUNT = "aliyun.com/gpu-count"
TOLD = "scheduler.framework.gpushare.allocation"
CARD_GIB = CARD_MIB // 1024
INSPECT = os.environ.get("GPUSHARE_INSPECT")


def asks(gib):
    return {GIB: str(gib), **limits(gpumem=gib * 1024)}


@pytest.fixture
def world(rig):
    """A node with two H100, a controller that publishes gpushare's resources, and the scheduler."""
    with contextlib.ExitStack() as stack:
        made = World(rig, stack, {"h100-80": 2}, gpushare="on")
        made.schedule()
        yield made


def numbers(world):
    """(GiB, cards) of the node; the kubelet's work is done meanwhile."""
    allocatable = world.rig.api.get(world.nodes[0].path)["status"]["allocatable"]
    return int(allocatable.get(GIB, 0)), int(allocatable.get(COUNT, 0))


def test_a_node_offers_its_gib_and_cards_while_the_controller_is_told_to(world):
    world.until(lambda: numbers(world) == (2 * CARD_GIB, 2), lambda: f"the numbers, not {numbers(world)}")
    world.controller.stop()
    world.rig.controller("without")
    world.until(lambda: numbers(world) == (0, 0), lambda: f"no numbers, not {numbers(world)}")


def test_pods_are_bound_with_the_card_that_gpushares_tool_reads(world):
    world.until(lambda: numbers(world) == (2 * CARD_GIB, 2), lambda: f"the numbers, not {numbers(world)}")
    first = world.pod("first", containers={"a": asks(50), "b": {"cpu": "1m"}, "c": asks(50)})
    other = world.pod("other", gpumem=1024)
    world.wait_shares(first, n=2)
    world.wait_shares(other)
    by_size = json.loads(world.get(first)["metadata"]["annotations"][TOLD])
    assert sorted(by_size) == ["0", "2"] and sorted(card for given in by_size.values() for card in given) == ["0", "1"], "two of 50 GiB are on two cards"
    assert {gib for given in by_size.values() for gib in given.values()} == {50}
    cards = {card for _, card, _, _ in world.shares(first)}
    assert cards == {0, 1}
    assert TOLD not in world.get(other)["metadata"]["annotations"], "it does not ask in gpushare's word"


def gib_of_cards(world, pod):
    """What its annotation says that it has of each card."""
    given = json.loads(world.get(pod)["metadata"]["annotations"][TOLD]).values()
    return [sum(of.get(card, 0) for of in given) for card in "01"]


def inspected(world, *options):
    """The lines that gpushare's own tool prints of the node, and of its pods, in words."""
    env = {**os.environ, "KUBECONFIG": str(world.rig.cluster.kubeconfig)}
    printed = subprocess.run([INSPECT, *options], env=env, text=True, capture_output=True, check=True, timeout=30).stdout
    return [line.split() for line in printed.splitlines() if world.rig.id in line]


@pytest.mark.skipif(INSPECT is None, reason="GPUSHARE_INSPECT names no tool of gpushare's")
def test_gpushares_own_tool_shows_what_pods_have_of_each_card(world):
    world.until(lambda: numbers(world) == (2 * CARD_GIB, 2), lambda: f"the numbers, not {numbers(world)}")
    both = world.pod("both", containers={"a": asks(50), "b": {"cpu": "1m"}, "c": asks(40)})
    world.wait_shares(both, n=2)
    one = world.pod("one", containers={"main": asks(35)})
    world.wait_shares(one)
    of_both, of_one = gib_of_cards(world, both), gib_of_cards(world, one)
    assert sorted(of_both) == [40, 50] and sorted(of_one) == [0, 35]
    used = [a + b for a, b in zip(of_both, of_one)]
    ((_, _, *told),) = inspected(world)
    assert told == [f"{used[0]}/{CARD_GIB}", f"{used[1]}/{CARD_GIB}", f"{sum(used)}/{2 * CARD_GIB}"]
    pods = {line[0]: line[2:] for line in inspected(world, "-d") if line[0] in (both, one)}
    assert pods == {pod: [str(gib) for gib in given] for pod, given in ((both, of_both), (one, of_one))}


def test_a_pod_waits_where_no_single_card_has_the_room(world):
    for name in ("first", "second"):
        world.wait_shares(world.pod(name, containers={"main": asks(60)}))
    late = world.pod("late", containers={"main": asks(30)})
    world.until(lambda: condition(world.get(late), "PodScheduled"), "an answer")
    wait_for(lambda: f"needs {30 * 1024} MiB on one card; the best of 2 has {CARD_MIB - 60 * 1024}" in world.why(late), 30, lambda: world.why(late))


def test_the_guide_finds_pods_that_wait_and_are_older_than_the_policy(rig):
    (command,) = re.findall(r"```sh\n +(kubectl get pods .*?)\n +```", (ROOT / "docs" / "gpushare.md").read_text(), re.DOTALL)
    made = {"old": {GIB: "2"}, "new": asks(2), "other": {"cpu": "1m"}}
    for name, of in made.items():
        rig.pod(f"{rig.id}-{name}", None, schedulerName="nobody", containers=[{"name": "main", "image": "none", "resources": {"limits": of}}])
    words = shlex.split(command)
    assert words[0] == "kubectl"
    listed = [line.split() for line in rig.cluster.kubectl.out(*words[1:]).splitlines()]
    assert [line for line in listed if line[1].startswith(f"{rig.id}-")] == [["default", f"{rig.id}-old"]]


@pytest.fixture
def real(real_rig):
    with real_node(real_rig, gpushare="on") as n:
        yield n


def test_a_pod_runs_on_a_kubelet_that_counts_the_word_and_finds_gpushares_variables(real):
    pod = real.run("gpushare", RUN.replace("CUDA_", "ALIYUN_"), asks(3), schedulerName="cleave-scheduler")
    real.wait_phase(pod, "Running", timeout=60)
    cards, env = seen(real, pod)
    (card,) = json.loads(real.api.get(real.pod_path(pod))["metadata"]["annotations"][TOLD])["0"]
    assert cards == [f"/dev/nvidia{card}"]
    assert {k: v for k, v in env.items() if k.startswith("ALIYUN_")} == {
        "ALIYUN_COM_GPU_MEM_CONTAINER": "3",
        "ALIYUN_COM_GPU_MEM_DEV": str(CARD_GIB),
        "ALIYUN_COM_GPU_MEM_IDX": card,
    }
    wait_for(lambda: told(real) == {pod: [(int(card), 3 * 1024, 0)]}, 30, lambda: f"the share, not {told(real)}")
