# SPDX-License-Identifier: Apache-2.0
"""What falls ill is not offered, its neighbours are, and it comes back by itself when it is well."""

import json
import os
import signal
from pathlib import Path

import pytest
from conftest import wait_for
from stack import Api, ApiError, condition, is_true, mig, rig, serve  # noqa: F401

FAST = {"health_settle_seconds": 3}
LAYOUT = {"1g.10gb": 3, "3g.40gb": 1}
ALL = {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1}


def cut(rig, cards=1, **flags):
    """A node whose first card is cut, the others whole, and whose driver's reports are waited for."""
    node = rig.node({"h100-80": cards}, **{**FAST, **flags})
    node.want(mig(node.uuid(), LAYOUT))
    node.wait_ready()
    wait_for(lambda: metric(node, "cleave_agent_unwatched_cards") == 0, 30, "the cards to be watched")
    return node


def metric(node, name):
    for line in serve(node.agent, "/metrics")[1].splitlines():
        if line.startswith(f"{name} "):
            return int(float(line.split()[-1]))
    return None


def wait_resources(node, resources, timeout=30):
    wait_for(lambda: node.resources() == resources, timeout, lambda: f"{resources}, not {node.resources()}")


def ill(node, gpu=0):
    """{giID: reason} of the partitions that are unhealthy."""
    return {p["giID"]: p["unhealthy"]["reason"] for p in node.card(gpu).get("partitions", []) if "unhealthy" in p}


def watchers(node):
    """The children of the agent that wait for events."""
    found = [int(p) for t in Path(f"/proc/{node.agent.pid}/task").iterdir() for p in of_process(t / "children").split()]
    return [p for p in found if "watch-events" in of_process(f"/proc/{p}/cmdline")]


def of_process(file):
    """The text of a file of /proc; "" when the process or thread has ended."""
    try:
        return Path(file).read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_sick_instance_is_not_offered_and_its_neighbours_are(rig):
    node = cut(rig, 2, resync_seconds=3600, health_settle_seconds=600)
    sick = node.instance("3g.40gb")
    node.ctl("xid", "--gpu", 0, "--code", 95, "--gi", sick, "--ci", 0)
    wait_resources(node, {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 3})
    card = node.card(0)
    assert card["healthy"] and ill(node) == {sick: "XidError"}
    assert "Xid 95" in next(p for p in card["partitions"] if p["giID"] == sick)["unhealthy"]["message"]
    assert is_true(node.device(), "Ready"), "the layout is as wanted"
    assert metric(node, "cleave_agent_unhealthy_partitions") == 1
    assert 'cleave_agent_xids_total{xid="95"} 1' in serve(node.agent, "/metrics")[1]
    (event,) = wait_for(lambda: rig.events(node.name, "XidError"), 30, "the event on the Node")
    assert event["type"] == "Warning" and "NVIDIA GPU 0 instance" in event["note"]


def test_it_comes_back_by_itself_when_the_driver_asks_for_nothing(rig):
    node = cut(rig)
    node.ctl("xid", "--gpu", 0, "--code", 48, "--gi", node.instance("1g.10gb"))
    wait_resources(node, {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1})
    wait_resources(node, ALL)
    assert ill(node) == {}
    wait_for(lambda: rig.events(node.name, "Healthy"), 30, "the event that it is well")


def test_an_instance_that_is_made_again_is_well_at_once(rig):
    node = cut(rig, health_settle_seconds=3600)
    sick = node.instance("3g.40gb")
    node.ctl("xid", "--gpu", 0, "--code", 95, "--gi", sick)
    wait_resources(node, {"nvidia.com/mig-1g.10gb": 3})
    node.agent.signal(signal.SIGSTOP)  # a reading between the two would put the first right
    node.smi("mig", "-dci", "-i", 0, "-gi", sick)
    node.smi("mig", "-dgi", "-i", 0, "-gi", sick)
    node.agent.signal(signal.SIGCONT)
    wait_resources(node, ALL)
    assert ill(node) == {} and node.layout() == LAYOUT


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 94, 109])
def test_what_a_program_did_to_itself_harms_nobody(rig, code):
    node = cut(rig)
    node.ctl("xid", "--gpu", 0, "--code", code, "--gi", node.instance("3g.40gb"))
    wait_for(lambda: f'xids_total{{xid="{code}"}} 1' in serve(node.agent, "/metrics")[1], 30, "the Xid to be seen")
    node.wait_reads(2)
    assert node.resources() == ALL and not rig.events(node.name, "XidError")


def test_a_card_that_an_xid_made_ill_is_cut_once_it_is_well(rig):
    node = rig.node({"h100-80": 1}, health_settle_seconds=10)
    wait_for(lambda: metric(node, "cleave_agent_unwatched_cards") == 0, 30, "the card to be watched")
    node.ctl("xid", "--gpu", 0, "--code", 119)
    wait_resources(node, {})
    node.want(mig(node.uuid(), LAYOUT))
    assert "Xid 119" in node.wait_applied("Unhealthy")["message"]
    assert node.layout() == "native"
    node.wait_ready()
    assert node.layout() == LAYOUT and node.resources() == ALL


def test_a_recovery_action_takes_the_card_and_its_end_gives_it_back(rig):
    node = cut(rig, 2)
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_resources(node, {"nvidia.com/gpu": 1})
    assert condition(node.card(0), "Healthy")["reason"] == "ResetRequired" and not node.card(0)["healthy"]
    assert metric(node, "cleave_agent_unhealthy_cards") == 1
    node.ctl("recovery-action", "--gpu", 0, "none")
    wait_resources(node, {**ALL, "nvidia.com/gpu": 1})
    assert condition(node.card(0), "Healthy") == {}


def test_a_pending_remapping_is_told_and_takes_nothing(rig):
    node = cut(rig)
    node.ctl("remap", "--gpu", 0, "--pending", 1)
    found = wait_for(lambda: condition(node.card(0), "Healthy"), 30, "the notice")
    assert found["status"] == "True" and found["reason"] == "RowRemapPending"
    assert node.resources() == ALL
    node.ctl("remap", "--gpu", 0, "--failed", 1)
    wait_for(lambda: condition(node.card(0), "Healthy")["reason"] == "RowRemapFailure", 30, "the failure")
    wait_resources(node, {})


def test_a_lost_card_comes_back_when_it_is_back(rig):
    node = cut(rig, 2)
    node.ctl("lost", "--gpu", 0, "set")
    wait_resources(node, {"nvidia.com/gpu": 1})
    node.ctl("xid", "--gpu", 1, "--code", 48)
    wait_resources(node, {})
    node.ctl("lost", "--gpu", 0, "clear")
    wait_resources(node, {**ALL, "nvidia.com/gpu": 1})
    wait_for(lambda: metric(node, "cleave_agent_unwatched_cards") == 0, 30, "both to be watched again")


def test_a_card_without_events_is_said_to_be_unwatched(rig):
    node = rig.node({"h100-80": 1}, start=False)
    node.ctl("fault", "add", "--call", "nvmlDeviceRegisterEvents", "--action", "fail:NOT_SUPPORTED")
    node.start(**FAST)
    found = wait_for(lambda: rig.api.find(node.path) and node.resources() and condition(node.card(0), "Watched"), 30, "the condition")
    assert found["status"] == "False" and found["reason"] == "EventsUnsupported"
    assert node.card(0)["healthy"] and node.resources() == {"nvidia.com/gpu": 1}
    node.ctl("recovery-action", "--gpu", 0, "reboot")
    wait_for(lambda: condition(node.card(0), "Healthy").get("reason") == "RebootRequired", 30, "the reading to tell")


def test_a_card_that_could_not_be_watched_is_tried_again(rig):
    node = rig.node({"h100-80": 2}, start=False)
    node.ctl("fault", "add", "--call", "nvmlDeviceRegisterEvents", "--nth", 2, "--action", "fail:UNKNOWN")
    node.ctl("fault", "add", "--call", "nvmlDeviceRegisterEvents", "--nth", 3, "--action", "fail:TIMEOUT")
    node.start(**FAST)
    wait_for(lambda: rig.api.find(node.path) and node.resources() and condition(node.card(1), "Watched"), 30, "the condition")
    wait_for(lambda: not condition(node.card(1), "Watched"), 30, "its end")
    assert metric(node, "cleave_agent_unwatched_cards") == 0
    node.ctl("xid", "--gpu", 1, "--code", 48)
    wait_resources(node, {"nvidia.com/gpu": 1})


def test_the_plugins_environment_overrides_the_table(rig):
    node = rig.node({"h100-80": 1}, start=False)
    node.start(env={"DP_DISABLE_HEALTHCHECKS": "95", "DP_ENABLE_HEALTHCHECKS": "13"}, **FAST, resync_seconds=3600)
    wait_for(lambda: rig.api.find(node.path) and node.resources(), 30, "the first status")
    wait_for(lambda: metric(node, "cleave_agent_unwatched_cards") == 0, 30, "the card to be watched")
    node.ctl("xid", "--gpu", 0, "--code", 95)
    wait_for(lambda: 'xids_total{xid="95"} 1' in serve(node.agent, "/metrics")[1], 30, "the Xid to be seen")
    assert node.resources() == {"nvidia.com/gpu": 1}
    node.ctl("xid", "--gpu", 0, "--code", 13)
    wait_resources(node, {})


def test_who_waits_for_events_is_replaced_when_killed_and_dies_with_the_agent(rig):
    node = cut(rig)
    (first,) = watchers(node)
    os.kill(first, signal.SIGKILL)
    (second,) = wait_for(lambda: [p for p in watchers(node) if p != first], 30, "another")
    wait_for(lambda: metric(node, "cleave_agent_unwatched_cards") == 0, 30, "the card to be watched again")
    os.kill(node.agent.pid, signal.SIGKILL)
    wait_for(lambda: (of_process(f"/proc/{second}/stat") or " Z ").count(" Z "), 30, "its end")


# --- what a profile makes of it ---

OURS = {"key": "gpu.cleave.dev/unhealthy", "value": "true", "effect": "NoSchedule"}


def taints(node):
    return node.node_object()["spec"].get("taints", [])


def test_a_profile_may_have_the_node_tainted_and_others_taints_stay(rig):
    node = rig.node({"h100-80": 2}, **FAST)
    others = {"key": "example.com/reserved", "value": "x", "effect": "NoSchedule"}
    rig.api.merge(f"/api/v1/nodes/{node.name}", {"spec": {"taints": [others]}})
    rig.controller()
    rig.wait_ready(rig.profile("tainted", {"selector": {}, "mode": "native"}, health={"taint": "NoSchedule"}))
    node.ctl("recovery-action", "--gpu", 1, "reset")
    wait_for(lambda: OURS in taints(node), 30, lambda: f"the taint; there are {taints(node)}")
    assert others in taints(node) and len(taints(node)) == 2
    assert wait_for(lambda: rig.events(node.name, "GPUUnhealthy"), 30, "the event")
    node.ctl("recovery-action", "--gpu", 1, "none")
    wait_for(lambda: taints(node) == [others], 30, lambda: f"it to go; there are {taints(node)}")


def test_without_being_asked_nothing_is_tainted(rig):
    node = rig.node({"h100-80": 1}, **FAST)
    rig.controller()
    rig.wait_ready(rig.profile("plain", {"selector": {}, "mode": "native"}))
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: not node.card()["healthy"], 30, "the card to be ill")
    wait_for(lambda: not node.offers(), 30, "the Node to offer it no more")
    assert OURS not in taints(node)
    assert [w for w in rig.writes(resource="nodes") if w["verb"] == "patch" and "subresource" not in w["objectRef"]] == []


def test_the_right_to_taint_is_good_for_nothing_else(rig):
    node = rig.node({"h100-80": 1})
    path = f"/api/v1/nodes/{node.name}?fieldManager=cleave-controller"
    controller = Api(rig.cluster, token=rig.token("cleave-controller", rig.controller_pod("thief")))
    rig.give_lease("thief")
    wait_for(lambda: not taints(node), 30, "the taints of a new Node to go")
    wait_for(lambda: controller.merge(path, {"spec": {"taints": [OURS]}}), 30, "the policies to know who leads")
    for body in (
        {"spec": {"taints": [OURS, {"key": "example.com/mine", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{**OURS, "effect": "NoExecute"}]}},
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"pool": "stolen"}}},
        {"metadata": {"annotations": {"note": "stolen"}}},
        {"metadata": {"finalizers": ["example.com/stuck"]}},
        {"spec": {"providerID": "other://machine"}},
    ):
        with pytest.raises(ApiError) as refused:
            controller.merge(path, body)
        assert refused.value.code == 403, body
    controller.merge(path, {"spec": {"taints": None}})
    assert OURS not in taints(node)
