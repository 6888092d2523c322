# SPDX-License-Identifier: Apache-2.0
"""The node label nvidia.com/mig.config: mig-manager's protocol, kept for the scripts that use it.

mig-manager's defects of which we know (mig-parted cmd/nvidia-mig-manager) are scenarios here; they
are numbered as in this list:
 1 a change that cannot go on leaves the node wedged, its operands paused and its capacity 0
 2 after a failure that follows a success nothing is started again
 3 an error while the mode is switched is ignored
 4 a card without MIG on the node makes every configuration of all cards fail
 5 a configuration that does not cover all cards is applied anew with each restart
 6 the label's value is all that is told: no reason, no event, nothing by card
 7 failures are never tried again, and an edited configuration does nothing
 8 a label that changes and changes back while a change runs is lost; one taken off means failed
"""

import subprocess

import pytest
from conftest import wait_for
from stack import SIM, condition, rig  # noqa: F401

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"
BALANCED = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def state(node):
    return node.labels().get(STATE)


def wait_state(node, wanted, timeout=30):
    wait_for(lambda: state(node) == wanted, timeout, lambda: f"{wanted} on {node.name}; it says {state(node)}; {condition(node.status(), 'Ready')}")


def ask(node, value, wanted="success", timeout=30):
    """Sets the label and waits for the state that must follow, not for one that was there."""
    node.label(**{CONFIG: value, STATE: None} if state(node) == wanted else {CONFIG: value})
    wait_state(node, wanted, timeout)


@pytest.fixture
def labelled(rig):
    rig.controller()

    def make(fleet=None, **flags):
        return rig.node(fleet, **flags)

    return make


# --- the protocol ---


@pytest.mark.parametrize(
    "value,layout",
    [
        ("all-balanced", BALANCED),
        ("all-1g.10gb", {"1g.10gb": 7}),
        ("all-1g.10gb.me", {"1g.10gb+me": 1}),
        ("all-3g.40gb", {"3g.40gb": 2}),
        ("all-enabled", {}),
        ("all-disabled", "native"),
    ],
)
def test_a_built_in_name_is_applied_to_all_cards(labelled, value, layout):
    node = labelled({"h100-80": 2})
    node.label(**{CONFIG: value})
    wait_state(node, "success")
    assert node.layouts() == [layout] * 2
    wait_for(lambda: node.offers() == node.resources(), 30, "the resources")
    assert node.node_object()["status"]["allocatable"]["cpu"] == "64"


def test_success_is_said_only_after_the_hardware_shows_it(labelled):
    node = labelled()
    node.ctl("latency", "set", CREATE, "200ms")
    node.label(**{CONFIG: "all-1g.10gb"})
    seen = []

    def success():
        now = state(node)
        if now and (not seen or seen[-1] != now):
            seen.append(now)
        if now == "success":
            assert node.layout() == {"1g.10gb": 7}
        return now == "success"

    wait_for(success, 30, lambda: seen)
    assert seen == ["pending", "success"]
    node.ctl("latency", "set", CREATE, "1s")
    node.label(**{CONFIG: "all-3g.40gb"})
    wait_state(node, "pending")
    wait_state(node, "success")
    assert node.layout() == {"3g.40gb": 2}


def test_a_script_that_sets_the_label_and_waits_goes_on_working(rig, labelled):
    node = labelled()
    kubectl = f"{rig.cluster.kubectl.program} --kubeconfig {rig.cluster.kubeconfig}"
    script = f"""
        set -eu
        {kubectl} label node {node.name} nvidia.com/mig.config=all-balanced --overwrite
        {kubectl} wait node/{node.name} --for=jsonpath='{{.metadata.labels.nvidia\\.com/mig\\.config\\.state}}'=success --timeout=60s
        {kubectl} get node {node.name} -o jsonpath='{{.metadata.labels.nvidia\\.com/mig\\.config\\.state}}'
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("success") and node.layout() == BALANCED


def test_the_state_goes_with_the_label_and_the_cards_stay(labelled):
    node = labelled()
    ask(node, "all-balanced")
    node.label(**{CONFIG: None})
    wait_state(node, None)
    node.wait_reads(2)
    assert node.layout() == BALANCED and state(node) is None
    node.wait_ready()


def test_a_state_written_by_hand_is_put_right(labelled):
    node = labelled()
    ask(node, "all-balanced")
    node.label(**{STATE: "failed"})
    wait_state(node, "success")


def test_a_label_beats_a_profile_and_gives_back(rig, labelled):
    node = labelled()
    profile = rig.profile("p", {"mode": "mig", "mig": {"profiles": {"7g.80gb": 1}}})
    rig.wait_ready(profile)
    ask(node, "all-1g.10gb")
    assert node.layout() == {"1g.10gb": 7}
    rig.wait_condition(profile, "Stalled", "Overridden")
    node.label(**{CONFIG: None})
    rig.wait_ready(profile)
    node.wait_layout({"7g.80gb": 1})
    wait_state(node, None)


def test_an_object_of_that_name_or_alias_is_found(rig, labelled):
    node = labelled()
    rig.config(f"{rig.id}-custom", {"migEnabled": True, "migDevices": {"3g.40gb": 1}}, aliases=[f"{rig.id}_Custom"])
    ask(node, f"{rig.id}_Custom")
    assert node.layout() == {"3g.40gb": 1}


def test_a_config_of_some_cards_leaves_the_others(rig, labelled):
    # Defect 5: it is in force, and stays so over a restart without another write.
    node = labelled({"h100-80": 3})
    rig.config(f"{rig.id}-c", {"indices": [1], "migEnabled": True, "migDevices": {"3g.40gb": 2}})
    ask(node, f"{rig.id}-c")
    assert node.layouts() == ["native", {"3g.40gb": 2}, "native"]
    node.wait_reads(1)
    changes = len(node.changes())

    def again():
        assert node.agent.stop() == 0
        node.start()
        node.wait_reads(3)

    assert rig.writes_while(again) == []
    assert len(node.changes()) == changes


# --- where mig-manager wedges ---


def test_what_is_in_use_fails_in_place_and_succeeds_when_it_is_free(labelled):
    # Defects 1 and 2: capacity stays, and nobody has to set the label again.
    node = labelled()
    ask(node, "all-3g.40gb")
    wait_for(lambda: node.offers() == {"nvidia.com/mig-3g.40gb": 2}, 30, "the resources")
    for i, instance in enumerate(node.cards()[0]["gpuInstances"]):
        node.attach(0, instance["id"], 900 + i)
    node.label(**{CONFIG: "all-1g.10gb"})
    wait_state(node, "failed")
    assert node.layout() == {"3g.40gb": 2} and node.offers() == {"nvidia.com/mig-3g.40gb": 2}
    for i in range(2):
        node.detach(900 + i)
    wait_state(node, "success")
    assert node.layout() == {"1g.10gb": 7}


def test_a_failure_after_a_success_heals_by_itself(rig, labelled):
    # Defects 2 and 7.
    node = labelled()
    ask(node, "all-3g.40gb")
    before = node.placements()
    # The first create of the change; then two go back, and the next is the second try's first.
    node.ctl("fault", "add", "--call", CREATE, "--nth", 1, "--action", "fail:UNKNOWN")
    node.ctl("fault", "add", "--call", CREATE, "--nth", 4, "--action", "fail:UNKNOWN")
    node.label(**{CONFIG: "all-1g.10gb"})
    wait_state(node, "failed")
    wait_for(lambda: node.placements() == before, 30, "what stood before")  # a next try may have begun
    assert wait_for(lambda: rig.events(node.name, "RolledBack"), 30, "an event")
    node.ctl("fault", "clear")
    wait_state(node, "success", 60)
    assert node.layout() == {"1g.10gb": 7}


@pytest.mark.parametrize("model", ["a100-80", "h100-80"])
def test_an_error_of_the_mode_switch_is_a_failure_with_its_name(labelled, model):
    # Defect 3.
    node = labelled({model: 1})
    node.ctl("fault", "add", "--call", "nvmlDeviceSetMigMode", "--nth", 0, "--action", "fail:NO_PERMISSION")
    node.label(**{CONFIG: "all-balanced"})
    wait_state(node, "failed")
    assert "nvmlDeviceSetMigMode" in condition(node.card(), "Applied")["message"]
    assert node.layout() == "native"
    node.ctl("fault", "clear")
    wait_state(node, "success", 60)


def test_a_card_without_mig_beside_others_is_passed_over(labelled):
    # Defect 4.
    node = labelled({"h100-80": 1, "l4": 1})
    ask(node, "all-balanced")
    by_model = {c["model"]: c for c in node.cards()}
    assert by_model["h100-80"]["migCurrent"] and not by_model["l4"]["migCurrent"]
    changes = len(node.changes())
    ask(node, "all-balanced")
    assert len(node.changes()) == changes


def test_the_same_label_again_changes_nothing(rig, labelled):
    node = labelled()
    ask(node, "all-balanced")
    node.wait_reads(1)
    changes = len(node.changes())

    def again():
        node.label(**{CONFIG: "all-balanced"})
        node.wait_reads(2)

    assert rig.writes_while(again) == []
    assert len(node.changes()) == changes


def test_an_unknown_name_fails_with_an_event_and_heals_when_the_object_comes(rig, labelled):
    # Defects 6 and 7.
    node = labelled()
    ask(node, "all-balanced")
    before, changes = node.placements(), len(node.changes())
    ask(node, f"{rig.id}-later", "failed")
    (event,) = wait_for(lambda: rig.events(node.name, "UnknownConfig"), 30, "an event")
    assert event["type"] == "Warning" and f"{rig.id}-later" in event["note"]
    assert node.placements() == before and len(node.changes()) == changes
    assert node.offers() == node.resources() != {}
    rig.config(f"{rig.id}-later", {"migEnabled": True, "migDevices": {"7g.80gb": 1}})
    wait_state(node, "success")
    assert node.layout() == {"7g.80gb": 1}


def test_a_config_that_cannot_be_fails_and_an_edit_heals_it(rig, labelled):
    # Defect 7: an edited configuration counts.
    node = labelled()
    rig.config(f"{rig.id}-c", {"migEnabled": True, "migDevices": {"3g.40gb": 3}})
    ask(node, f"{rig.id}-c", "failed")
    (event,) = wait_for(lambda: rig.events(node.name, "Infeasible"), 30, "an event")
    assert "nearest" in event["note"]
    assert node.layout() == "native" and node.changes() == []
    rig.config(f"{rig.id}-c", {"migEnabled": True, "migDevices": {"3g.40gb": 2}})
    wait_state(node, "success")
    assert node.layout() == {"3g.40gb": 2}
    rig.config(f"{rig.id}-c", {"migEnabled": True, "migDevices": {"1g.10gb": 1}})
    node.wait_layout({"1g.10gb": 1})
    wait_state(node, "success")


def test_a_label_that_changes_and_changes_back_ends_where_it_began(labelled):
    # Defect 8.
    node = labelled()
    ask(node, "all-3g.40gb")
    node.ctl("latency", "set", CREATE, "100ms")
    node.label(**{CONFIG: "all-1g.10gb"})
    wait_for(lambda: node.layout() not in ({"3g.40gb": 2}, {}), 30, "the change to begin")
    node.label(**{CONFIG: "all-3g.40gb"})
    node.wait_layout({"3g.40gb": 2})
    wait_state(node, "success")
    node.wait_ready()


def test_a_label_taken_off_in_the_middle_of_a_change_is_no_failure(labelled):
    # Defect 8.
    node = labelled()
    node.ctl("latency", "set", CREATE, "100ms")
    node.label(**{CONFIG: "all-1g.10gb"})
    wait_for(lambda: node.layout() != "native" and node.layout() != {}, 30, "the change to begin")
    node.label(**{CONFIG: None})
    wait_state(node, None)
    wait_for(lambda: node.layout() in ({"1g.10gb": 7}, "native"), 30, lambda: f"the change to end; {node.layout()}")
    node.wait_ready()


def test_a_restart_of_the_node_restores_the_layout(labelled):
    node = labelled({"a100-80": 1, "h100-80": 1})
    ask(node, "all-balanced")
    node.agent.kill()
    node.ctl("reboot")
    node.start()
    wait_for(lambda: node.layouts() == [BALANCED] * 2, 30, node.layouts)
    wait_state(node, "success")


def test_a_mode_that_only_a_restart_of_the_node_changes_says_rebooting(labelled, tmp_path):
    # As on machines where the driver refuses every reset.
    refuses = tmp_path / "nvidia-smi"
    refuses.write_text("#!/bin/sh\necho 'Resetting GPU is not supported.'\nexit 3\n")
    refuses.chmod(0o755)
    node = labelled({"a100-80": 1}, nvidia_smi=refuses)
    node.label(**{CONFIG: "all-balanced"})
    wait_state(node, "rebooting")
    assert node.applied().get("reason") == "RebootRequired"
    node.agent.kill()
    node.ctl("reboot")
    node.start(nvidia_smi=refuses)
    wait_state(node, "success")
    assert node.layout() == BALANCED


def test_a_reset_that_cannot_be_tried_is_a_failure_that_says_why_and_heals(labelled, tmp_path):
    late = tmp_path / "nvidia-smi"
    node = labelled({"a100-80": 1}, nvidia_smi=late)
    node.label(**{CONFIG: "all-balanced"})
    wait_state(node, "failed")
    assert "no program" in node.applied()["message"] and node.layout() == "native"
    late.symlink_to(SIM / "nvidia-smi")
    wait_state(node, "success", 60)
    assert node.layout() == BALANCED


def test_a_node_without_agent_or_cards_gets_no_state_and_hurts_nobody(rig, labelled):
    empty = rig.node(start=False)
    node = labelled()
    empty.label(**{CONFIG: "all-balanced"})
    ask(node, "all-balanced")
    assert state(empty) is None
