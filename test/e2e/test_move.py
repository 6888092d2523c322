# SPDX-License-Identifier: Apache-2.0
"""From NVIDIA's device plugin to ours on a node whose pods run on (docs/operations.md).

NVIDIA's plugin names a partition by its MIG UUID, we by card and place. To the kubelet these are
different devices, so what a pod got from theirs looks free under our name.
"""

import re

import pytest
from conftest import wait_for
from kubelet_rig import real_cluster, real_node, real_rig  # noqa: F401
from toy_plugin import ToyPlugin

SMALL = "nvidia.com/mig-1g.10gb"
HALF = "nvidia.com/mig-3g.40gb"


@pytest.fixture
def theirs(real_node):
    """Stands in for NVIDIA's plugin: serves the three 1g.10gb of a card that others cut, by their MIG UUIDs."""
    real_node.wait_offers()  # what the agent of the test before offered is off the Node
    real_node.smi("-i", "0", "-mig", "1")
    real_node.smi("mig", "-cgi", "3g.40gb,1g.10gb,1g.10gb,1g.10gb", "-C")
    plugin = ToyPlugin(real_node.plugins, SMALL, "theirs.sock")
    plugin.devices = {uuid: True for uuid in re.findall(r"MIG 1g\.10gb .*UUID: (MIG-[0-9a-f-]+)", real_node.smi("-L"))}
    assert len(plugin.devices) == 3 and plugin.register() is None
    real_node.wait_offers(**{SMALL: 3})
    yield plugin
    plugin.stop()


def users(node):
    """{pod: profile of the partition that it has}, as the Device shows it."""
    return {u["name"]: p["profile"] for c in node.status().get("devices", ()) for p in c.get("partitions", ()) for u in p.get("inUseBy", ()) if "name" in u}


def test_a_pod_of_nvidia_s_plugin_keeps_its_partition_and_nobody_else_gets_it(real_node, theirs):
    pod = real_node.runner("theirs", {SMALL: "1"})
    theirs.stop()
    real_node.start()
    wait_for(lambda: users(real_node) == {pod: "1g.10gb"}, 30, lambda: f"the pod in the Device: {users(real_node)}")
    real_node.wait_offers(**{HALF: 1, SMALL: 2})
    ours = real_node.runner("ours", {SMALL: "1"})
    assert users(real_node).keys() >= {pod} and real_node.container(pod)["restartCount"] == 0
    real_node.delete(pod)
    real_node.wait_offers(**{HALF: 1, SMALL: 3})
    wait_for(lambda: users(real_node) == {ours: "1g.10gb"}, 30, lambda: f"our pod alone in the Device: {users(real_node)}")
