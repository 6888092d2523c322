# SPDX-License-Identifier: Apache-2.0
"""Agents hand a node over under a real kubelet, with pods on partitions. The Node is watched, not
polled: no version of it may be without what the agents offer."""

import http.client
import json
import os
import threading

import pytest
from conftest import wait_for
from handover import hand_over, stand_by
from kubelet_rig import real_cluster, real_node, real_rig  # noqa: F401
from stack import Api, mig

HANDOVERS = int(os.environ.get("CLEAVE_HANDOVERS", "5"))
SMALL = "nvidia.com/mig-1g.10gb"
HALF = "nvidia.com/mig-3g.40gb"
OFFER = {HALF: "1", SMALL: "3"}


class NodeWatch:
    """Every version of a Node's allocatable resources from its making on, as the API server tells it."""

    def __init__(self, node):
        self.api = Api(node.cluster)
        path = f"/api/v1/nodes/{node.name}"
        self.versions = [self.api.get(path)]
        start = self.versions[0]["metadata"]["resourceVersion"]
        self.connection = self.api.connect()
        query = f"watch=true&fieldSelector=metadata.name={node.name}&resourceVersion={start}"
        self.connection.request("GET", f"/api/v1/nodes?{query}", headers={"Authorization": f"Bearer {self.api.token}"})
        self.answer = self.connection.getresponse()
        self.connection.sock.settimeout(None)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.answer:
                self.versions.append(json.loads(line)["object"])
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass  # closed

    def end(self):
        """Returns the versions, once the watch has told of a change that is made now."""
        mark = str(len(self.versions))
        path = f"/api/v1/nodes/{self.versions[0]['metadata']['name']}"
        self.api.merge(path, {"metadata": {"annotations": {"test/mark": mark}}})
        wait_for(lambda: self.versions[-1]["metadata"].get("annotations", {}).get("test/mark") == mark, 30, "the watch to tell the newest version")
        self.api.close()
        return self.versions


def without(versions):
    """The versions of the Node that lack something, as (version, what it has)."""
    given = [(v["metadata"]["resourceVersion"], v["status"]["allocatable"]) for v in versions]
    return [(version, {k: a.get(k) for k in OFFER}) for version, a in given if {k: a.get(k) for k in OFFER} != OFFER]


@pytest.fixture
def halves(real_node):
    real_node.wait_offers()  # what the agent of the test before offered is off the Node
    real_node.start()
    wait_for(lambda: real_node.agrees(), 30, "the agent")
    real_node.want(mig(real_node.uuid(), {"3g.40gb": 1, "1g.10gb": 3}))
    real_node.wait_layout({"3g.40gb": 1, "1g.10gb": 3})
    real_node.wait_offers(**{HALF: 1, SMALL: 3})
    return real_node


def next_agent(node):
    return stand_by(lambda: node.start(name=f"agent{len(node.rig.processes.all)}"))


def test_no_version_of_the_node_lacks_a_resource_and_pods_run_on(halves, capsys):
    pods = [halves.runner("small", {SMALL: "1"}), halves.runner("half", {HALF: "1"})]
    before = [halves.container(pod)["containerID"] for pod in pods]
    watch = NodeWatch(halves)
    old = halves.agent
    for _ in range(HANDOVERS):
        new = next_agent(halves)
        coming = halves.run("coming", "true", {SMALL: "1"})
        hand_over(old, new)
        halves.wait_phase(coming, "Succeeded")
        halves.delete(coming)
        old = new
    versions = watch.end()
    assert without(versions) == []
    assert [halves.container(pod)["containerID"] for pod in pods] == before
    with capsys.disabled():
        print(f"\n{HANDOVERS} hand-overs under a real kubelet: {len(versions)} versions of the Node, none without a resource")


def test_agent_that_ends_without_a_standby_is_noticed(halves):
    """The watch sees it: the other test can fail. And after a hand-over the kubelet knows the new agent."""
    old, new = halves.agent, next_agent(halves)
    hand_over(old, new)
    watch = NodeWatch(halves)
    new.stop()
    halves.wait_offers()
    assert without(watch.end()) != []


def test_standby_takes_over_from_an_agent_that_is_killed(halves):
    pod = halves.runner("small", {SMALL: "1"})
    old, new = halves.agent, next_agent(halves)
    old.kill()
    wait_for(lambda: "Has this node's cards" in new.text(), 30, new.tail)
    halves.wait_offers(**{HALF: 1, SMALL: 3})
    assert halves.result("echo mine", {HALF: "1"}) == "mine\n"
    assert halves.container(pod)["restartCount"] == 0
