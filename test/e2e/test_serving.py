# SPDX-License-Identifier: Apache-2.0
"""An agent that died leaves a status that nobody takes back: the controller says so, and the next agent heals it."""

import pytest
from conftest import wait_for
from kubelet_rig import real_cluster, real_node, real_rig  # noqa: F401
from stack import condition, is_current, serve

GONE = "AgentNotServing"


def unserved(controller):
    line = next(line for line in serve(controller, "/metrics")[1].splitlines() if line.startswith("cleave_controller_devices_unserved "))
    return int(line.split()[1])


@pytest.mark.long
def test_an_agent_that_is_gone_is_said_to_be_and_its_successor_heals_it(real_node):
    rig = real_node.rig
    controller = rig.controller()
    real_node.start()
    profile = rig.profile("p", {"mode": "native"})
    rig.wait_ready(profile)
    real_node.wait_offers(**{"nvidia.com/gpu": 1})
    real_node.agent.kill()
    wait_for(lambda: not real_node.offers(), 30, "the kubelet to have none")
    assert condition(real_node.device(), "Ready")["status"] == "True", "the status of a dead agent stays"
    wait_for(lambda: condition(real_node.device(), "Ready")["reason"] == GONE, 120, lambda: f"the Device to say so: {real_node.status().get('conditions')}")
    ready = condition(real_node.device(), "Ready")
    assert ready["status"] == "Unknown" and f"spec.nodeName={real_node.name}" in ready["message"]
    wait_for(lambda: condition(rig.api.get(profile), "Ready")["reason"] == GONE, 10, "the profile to say so")
    assert rig.api.get(profile)["status"]["nodes"] == {"matched": 1, "upToDate": 0, "progressing": 1, "failed": 0}
    assert len(wait_for(lambda: rig.events(real_node.name, GONE), 10, "the Event")) == 1
    assert unserved(controller) == 1
    mark = rig.cluster.audit_mark()
    real_node.start()
    wait_for(lambda: is_current(real_node.device()), 30, "the next agent to take it back")
    real_node.wait_offers(**{"nvidia.com/gpu": 1})
    rig.wait_ready(profile)
    assert unserved(controller) == 0
    assert not [e for e in rig.cluster.writes(mark, "cleave-controller") if e["objectRef"].get("subresource") == "status" and e["objectRef"]["resource"] == "devices"]
