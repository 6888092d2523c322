# SPDX-License-Identifier: Apache-2.0
"""Other programs that cut or offer a node's cards beside our agent: said in its Device, and not fought (docs/adr/0039)."""

from conftest import wait_for
from kubelet_rig import HALF, SMALL, halves, real_cluster, real_node, real_rig  # noqa: F401
from stack import condition, is_true
from toy_plugin import ToyPlugin

SWITCH_OFF = "kubectl label node {} --overwrite nvidia.com/gpu.deploy.mig-manager=false"


def neighbours(node):
    said = condition(node.status(), "Neighbours")
    return (said["status"], said["reason"]) if said else None


def test_a_mig_manager_is_said_with_what_switches_it_off(halves):
    assert neighbours(halves) is None
    pod = halves.runner("nvidia-mig-manager")
    wait_for(lambda: neighbours(halves) == ("True", "MIGManager"), 30, lambda: f"the neighbour in the Device: {halves.status()['conditions']}")
    message = condition(halves.status(), "Neighbours")["message"]
    assert f"(pod default/{pod})" in message and SWITCH_OFF.format(halves.name) in message
    assert is_true(halves.status(), "Ready") and halves.agrees()
    (event,) = wait_for(lambda: halves.rig.events(halves.name, "Neighbours"), 30, "an Event")
    assert event["type"] == "Warning" and event["note"] == message
    assert halves.rig.writes_while(lambda: halves.wait_reads(3)) == [], "a node with a neighbour is not written again and again"
    halves.delete(pod)
    wait_for(lambda: neighbours(halves) is None, 60, lambda: f"the neighbour to be gone: {halves.status()['conditions']}")


def test_a_plugin_that_registers_the_same_resource_is_said_and_left_alone(halves):
    """The kubelet goes on reading our list and asks the other plugin, and when that one goes it has dropped both."""
    agent = halves.agent
    before = agent.text().count("Registered with the kubelet")
    rival = ToyPlugin(halves.plugins, SMALL, "theirs.sock")
    try:
        rival.devices = {"GPU-theirs": True}
        assert rival.register() is None
        wait_for(lambda: neighbours(halves) == ("True", "Contested"), 30, lambda: f"the rival in the Device; {rival.calls}: {halves.status()['conditions']}")
        assert SMALL in condition(halves.status(), "Neighbours")["message"]
        assert is_true(halves.status(), "Ready")
        halves.wait_reads(3)
        halves.wait_offers(**{HALF: 1, SMALL: 1})
        assert agent.text().count("Registered with the kubelet") == before
    finally:
        rival.stop()
    halves.wait_offers(timeout=90, **{HALF: 1, SMALL: 3})
    wait_for(lambda: neighbours(halves) is None, 60, lambda: f"the neighbour to be gone: {halves.status()['conditions']}")
    assert halves.result("echo mine", {SMALL: "1"}) == "mine\n"
