# SPDX-License-Identifier: Apache-2.0
"""A platform team's first day with Cleave on three nodes, two of them with cards: the commands of README.md, in order.

What is not run of them is building and pushing the images (the nodes are given them) and `make chart` (made here, as it does).
"""

import time

import pytest
from conftest import wait_for
from handover import NodeWatch, without
from pod_images import images
from pods_rig import pods, pods_cluster, section, steps, without_questions  # noqa: F401
from test_plugin_real import LOOK, assert_sees_its_own, held

SMALL, MIDDLE, HALF, GPU = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu"
CARDS = {SMALL: 11, MIDDLE: 2, HALF: 2, GPU: 4}  # of n1, as config/samples/inference.yaml has it: the last card is shared by four
PARTITIONS = [name for name in (SMALL, MIDDLE, HALF) for _ in range(CARDS[name])]


def standing(node, workers):
    """What each of the pods has: its container, and its device."""
    return {pod: (node.container(pod)["containerID"], held(node, pod)) for pod in workers}


def start_workers(node, resources):
    """A pod for each, all at once; returns their names once they run."""
    workers = [node.run("worker", f"{LOOK}; sleep 3600", {name: "1"}, "Always") for name in resources]
    for pod in workers:
        node.wait_phase(pod, "Running", timeout=90)
    return workers


def assert_images(pods, tag):
    assert {c["image"].rpartition(":")[2] for p in pods.ours() for c in p["spec"]["containers"]} == {tag}


class Day:
    """The day, a chapter a method."""

    def __init__(self, pods, say):
        self.pods, self.say, self.node = pods, say, pods.node("n1")
        self.checkout = pods.checkout()
        self.checkout.make_chart()
        self.readme = steps(section("README.md", "On a cluster"))
        self.before = None

    def install(self):
        started = time.monotonic()
        self.checkout.sh(self.readme[2])
        self.pods.wait_rolled_out()
        self.say(f"helm install to all pods Ready on three nodes: {time.monotonic() - started:.1f} s")
        self.pods.wait_devices()
        self.checkout.sh(self.readme[3])
        self.node.wait_offers(timeout=60, **CARDS)

    def a_pod_for_each_partition(self):
        """And one on a card that is shared. No two have the same."""
        workers = start_workers(self.node, [*PARTITIONS, GPU])
        devices = [assert_sees_its_own(self.node, pod) for pod in workers[:-1]]
        assert len(set(devices)) == len(PARTITIONS)
        self.before = standing(self.node, workers)
        self.say(f"resident memory in the agent's pod: {self.node.resident()}")

    def rolled(self, step, tag):
        """A step of the README that replaces all pods, under the eyes of a watch: the figure "absent" is the count of versions."""
        with NodeWatch(self.pods.cluster, self.node.name) as watch:
            self.checkout.sh(self.readme[step])
            self.pods.wait_rolled_out()
            assert_images(self.pods, tag)
            self.node.wait_settled()
            versions = watch.end()
        assert without(versions, {name: str(count) for name, count in CARDS.items()}) == []
        assert standing(self.node, self.before) == self.before
        self.say(f"README's step {step}: {len(versions)} versions of the Node, none without a resource: absent 0 s")

    def uninstall(self):
        self.checkout.sh(without_questions(self.readme[6]))
        wait_for(lambda: self.node.offers() == {}, 30, lambda: f"nothing to be offered: {self.node.offers()}")
        assert [k for n in self.pods.nodes for k in n.labels() if k.startswith(("nvidia.com/", "gpu.cleave.dev/"))] == []
        assert standing(self.node, self.before) == self.before

    def a_pod_gets_what_another_one_leaves(self):
        freed, *_ = self.before
        self.node.delete(freed)
        again = self.node.runner("again", {SMALL: "1"}, LOOK)
        assert [assert_sees_its_own(self.node, again)] == self.before[freed][1]


@pytest.fixture
def day(pods, capsys):
    def say(text):
        with capsys.disabled():
            print(f"\n{text}", end="")

    pods.new_cards()
    day = Day(pods, say)
    yield day
    pods.clear()
    day.checkout.uninstall()
    day.checkout.sh("kubectl label node n1 pool-")


def test_day_one(pods, day):
    day.install()
    day.a_pod_for_each_partition()
    pods.cluster.load(images(pods.cluster.rundir, "v2"))
    day.checkout.next_chart("v2")
    day.rolled(4, "v2")
    day.rolled(5, "v1")
    day.uninstall()
    day.install()
    assert standing(day.node, day.before) == day.before
    day.a_pod_gets_what_another_one_leaves()
