# SPDX-License-Identifier: Apache-2.0
"""Other programs that cut or offer a node's cards beside our agent: said in its Device, and not fought (docs/adr/0039)."""

import threading

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


class Rival(ToyPlugin):
    """Registers again whenever the kubelet leaves it, as our agent does."""

    def __init__(self, folder):
        super().__init__(folder, SMALL, "theirs.sock")
        self.devices = {"GPU-theirs": True}
        self.left = threading.Event()
        self.ended = False
        self.thread = threading.Thread(target=self.fight)
        self.thread.start()

    def watch(self, request, context):
        context.add_callback(self.left.set)
        yield from super().watch(request, context)

    def fight(self):
        while not self.ended:
            self.left.clear()
            self.register()
            self.left.wait()

    def stop(self):
        self.ended = True
        self.left.set()
        self.thread.join(30)
        super().stop()


def test_a_plugin_that_registers_the_same_resource_is_said_and_left_alone(halves):
    rival = Rival(halves.plugins)
    try:
        wait_for(lambda: neighbours(halves) == ("True", "Contested"), 30, lambda: f"the rival in the Device: {halves.status()['conditions']}")
        assert SMALL in condition(halves.status(), "Neighbours")["message"]
        assert is_true(halves.status(), "Ready")
        halves.wait_offers(**{HALF: 1, SMALL: 1})  # the rival's one; ours leaves it alone for longer and longer
        assert rival.calls.count("registered") < 20
    finally:
        rival.stop()
    halves.wait_offers(timeout=90, **{HALF: 1, SMALL: 3})
    assert halves.result("echo mine", {SMALL: "1"}) == "mine\n"
