# SPDX-License-Identifier: Apache-2.0
"""Agents hand a node over under a real kubelet, with pods on partitions. The Node is watched, not
polled: no version of it may be without what the agents offer."""

import os

from conftest import wait_for
from handover import NodeWatch, hand_over, stand_by, without
from kubelet_rig import HALF, SMALL, halves, real_cluster, real_node, real_rig  # noqa: F401
from test_plugin_real import wait_runs

HANDOVERS = int(os.environ.get("CLEAVE_HANDOVERS", "5"))
OFFER = {HALF: "1", SMALL: "3"}


def next_agent(node):
    return stand_by(lambda: node.start(name=f"agent{len(node.rig.processes.all)}"))


def test_no_version_of_the_node_lacks_a_resource_and_pods_run_on(halves, capsys):
    pods = [halves.runner("small", {SMALL: "1"}), halves.runner("half", {HALF: "1"})]
    before = [halves.container(pod)["containerID"] for pod in pods]
    with NodeWatch(halves.cluster, halves.name) as watch:
        old = halves.agent
        for _ in range(HANDOVERS):
            new = next_agent(halves)
            coming = halves.run("coming", "true", {SMALL: "1"})
            hand_over(old, new)
            halves.wait_phase(coming, "Succeeded")
            halves.delete(coming)
            old = new
        versions = watch.end()
    assert without(versions, OFFER) == []
    assert [halves.container(pod)["containerID"] for pod in pods] == before
    with capsys.disabled():
        print(f"\n{HANDOVERS} hand-overs under a real kubelet: {len(versions)} versions of the Node, none without a resource")


def test_agent_that_ends_without_a_standby_is_noticed(halves):
    """The watch sees it: the other test can fail. And after a hand-over the kubelet knows the new agent."""
    old, new = halves.agent, next_agent(halves)
    hand_over(old, new)
    with NodeWatch(halves.cluster, halves.name) as watch:
        new.stop()
        halves.wait_offers()
        assert without(watch.end(), OFFER) != []


def test_standby_takes_over_from_an_agent_that_is_killed(halves):
    pod = halves.runner("small", {SMALL: "1"})
    old, new = halves.agent, next_agent(halves)
    old.kill()
    wait_for(lambda: "Has this node's cards" in new.text(), 30, new.tail)
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    wait_runs(halves, {HALF: "1"})  # the Node may say what it said before
    assert halves.result("echo mine", {HALF: "1"}) == "mine\n"
    assert halves.container(pod)["restartCount"] == 0
