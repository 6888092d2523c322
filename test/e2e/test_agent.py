# SPDX-License-Identifier: Apache-2.0
"""cleave-agent on simulated cards, with a real API server: what it says is so, and what is wanted happens."""

import os
import signal
from pathlib import Path

import pytest
from conftest import is_write, wait_for
from stack import ApiServer, condition, is_current, is_true, mig, native, rig, sanitized, serve  # noqa: F401

MODELS = {
    "a100-40": ("NVIDIA A100-SXM4-40GB", 8),
    "a100-80": ("NVIDIA A100-SXM4-80GB", 8),
    "a30": ("NVIDIA A30", 4),
    "h100-80": ("NVIDIA H100 80GB HBM3", 8),
    "h100-nvl": ("NVIDIA H100 NVL", 8),
    "h200": ("NVIDIA H200", 8),
    "b200": ("NVIDIA B200", 8),
    "rtx-pro-6000": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 12),
}


def agree(node):
    """Does the status say what the simulator's own tool says, card by card?"""
    shown = {c["uuid"]: c for c in node.cards()}
    told = {c["uuid"]: c for c in node.cards_told()}
    assert told.keys() == shown.keys()
    for uuid, card in told.items():
        real = shown[uuid]
        assert card["model"] == real["name"] and card["index"] == real["index"]
        assert (card["mode"] == "mig") == real["migCurrent"]
        assert sorted((p["profile"], p["giID"], p["placement"]) for p in card.get("partitions", [])) == sorted(
            (i["profile"], i["id"], f"{i['placement']['start']}:{i['placement']['size']}") for i in real["gpuInstances"]
        )


# --- what it says ---


@pytest.mark.parametrize("model", MODELS)
def test_a_new_nodes_device_tells_what_the_hardware_is(rig, model):
    node = rig.node({model: 2})
    device = node.device()
    status = device["status"]
    name, slots = MODELS[model]
    assert status["summary"] == {"gpus": 2, "models": f"2x {name}", "layout": "2xgpu", "partitions": 0, "inUse": 0}
    assert status["resources"] == [{"name": "nvidia.com/gpu", "count": 2, "publisher": "controller"}]
    assert status["bootID"] == node.hardware()["bootId"]
    assert status["drivers"] == [{"vendor": "nvidia", "version": "580.95.05", "cudaVersion": "13.0"}]
    (described,) = status["models"]
    assert described["name"] == name and described["migMemorySlices"] == slots
    smallest = next(p for p in described["migProfiles"] if p["slices"] == 1)
    assert smallest["maxCount"] == len(smallest["starts"]) > 1
    agree(node)


def test_a_card_without_mig_is_said_to_have_none(rig):
    node = rig.node({"l4": 1, "h100-80": 1})
    assert [c["migCapable"] for c in node.cards_told()] == [False, True]
    assert node.resources() == {"nvidia.com/gpu": 2}


def test_the_columns_of_kubectl_get_tell_the_story(rig, kubectl):
    node = rig.node({"h100-80": 2})
    node.want(mig(node.uuid(), {"1g.10gb": 2, "3g.40gb": 1}))
    node.wait_ready()
    node.attach(0, node.instance("3g.40gb"), 77)
    wait_for(lambda: node.status()["summary"]["inUse"] == 1, 30, "the process to be seen")
    head, line = kubectl.out("get", "devices.gpu.cleave.dev", node.name).splitlines()
    assert head.split() == ["NAME", "GPUS", "MODEL", "LAYOUT", "IN-USE", "READY", "REASON", "REFUSED", "AGE"]
    for part in (node.name, "2x NVIDIA H100 80GB HBM3", "2x1g.10gb 1x3g.40gb 1xgpu", "True", "Applied"):
        assert part in line


# --- what is wanted happens ---


def test_a_spec_is_cut_and_told(rig):
    node = rig.node({"h100-80": 2})
    first, second = (c["uuid"] for c in node.cards())
    node.want(mig(first, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}), native(second))
    device = node.wait_ready()
    assert node.layouts() == [{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, "native"]
    agree(node)
    assert node.resources() == {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/gpu": 1}
    for card in device["status"]["devices"]:
        assert card["healthy"] and is_true(card, "Applied")
        assert condition(card, "Applied")["observedGeneration"] == device["metadata"]["generation"]


@pytest.mark.parametrize(
    "model,profiles",
    [
        ("a100-40", {"1g.5gb": 3, "2g.10gb": 2}),
        ("a30", {"1g.6gb": 2, "2g.12gb": 1}),
        ("b200", {"1g.23gb": 7}),
        ("h200", {"1g.18gb+me": 1, "1g.18gb": 2, "3g.71gb": 1}),
        ("rtx-pro-6000", {"1g.24gb+gfx": 2, "1g.24gb": 2}),
    ],
)
def test_every_generation_of_cards_is_cut(rig, model, profiles):
    # Ampere needs a reset for the mode, Hopper and Blackwell do not; grids have 4, 8 and 12 memory slices.
    node = rig.node({model: 1})
    node.want(mig(node.uuid(), profiles))
    node.wait_ready()
    assert node.layout() == profiles
    agree(node)
    node.want(native(node.uuid()))
    node.wait_ready()
    assert node.layout() == "native"


def test_strategies_and_replicas_decide_what_is_offered(rig):
    node = rig.node({"h100-80": 1})
    uuid = node.uuid()
    node.want(mig(uuid, {"1g.10gb": 7}), migStrategy="single")
    node.wait_ready()
    assert node.resources() == {"nvidia.com/gpu": 7}
    node.want(mig(uuid, {"1g.10gb": 7}, sharing={"timeSlicing": {"replicas": 4}}), migStrategy="mixed")
    wait_for(lambda: node.resources() == {"nvidia.com/mig-1g.10gb": 28}, 30, "the replicas to be offered")
    assert [c["call"] for c in node.changes()].count("nvmlDeviceCreateGpuInstanceWithPlacement") == 7


def test_what_may_stay_is_not_touched_by_a_change(rig):
    node = rig.node({"h100-80": 2})
    first, second = (c["uuid"] for c in node.cards())
    node.want(mig(first, {"1g.10gb": 4, "3g.40gb": 1}), mig(second, {"7g.80gb": 1}))
    node.wait_ready()
    kept = {p["uuid"] for p in node.card()["partitions"] if p["profile"] == "3g.40gb"} | {p["uuid"] for p in node.card(1)["partitions"]}
    node.want(mig(first, {"2g.20gb": 2, "3g.40gb": 1}), mig(second, {"7g.80gb": 1}))
    node.wait_ready()
    assert node.layouts() == [{"2g.20gb": 2, "3g.40gb": 1}, {"7g.80gb": 1}]
    assert kept < {p["uuid"] for g in (0, 1) for p in node.card(g)["partitions"]}


def test_a_card_that_is_not_in_the_spec_is_left_alone(rig):
    node = rig.node({"h100-80": 2})
    node.smi("-i", 1, "-mig", 1)
    node.smi("mig", "-i", 1, "-cgi", "9", "-C")
    node.want(mig(node.uuid(0), {"1g.10gb": 1}))
    node.wait_ready()
    node.want()
    node.wait_ready()
    assert node.layouts() == [{"1g.10gb": 1}, {"3g.40gb": 1}]
    assert condition(node.card(0), "Applied") == {}


# --- what is written ---


def test_one_news_is_one_write(rig):
    node = rig.node({"h100-80": 8})
    node.want(mig(node.uuid(5), {"3g.40gb": 2}))
    node.wait_ready()

    def news():
        node.attach(5, node.instance("3g.40gb", 5), 77)
        wait_for(lambda: node.status()["summary"]["inUse"] == 1, 30, "the process to be seen")
        node.wait_reads(2)

    written = rig.writes_while(news)
    assert [(e["objectRef"]["resource"], e["objectRef"].get("subresource")) for e in written] == [("devices", "status")]


def test_an_idle_agent_writes_nothing(rig):
    node = rig.node({"h100-80": 8})
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.wait_ready()
    wait_for(lambda: any(e["reason"] == "Repartitioned" for e in rig.events(node.name)), 30, "the Event of the change, which follows the status")
    heard = rig.cluster.audit_while(lambda: node.wait_reads(4))
    assert rig.mine(e for e in heard if is_write(e, "cleave")) == []
    assert [e for e in heard if node.name in e["user"].get("extra", {}).get("authentication.kubernetes.io/node-name", []) and e["verb"] != "watch"] == []


def test_a_small_change_is_a_handful_of_requests(rig):
    node = rig.node({"h100-80": 8})

    def change():
        mark = rig.cluster.audit_mark()
        node.want(mig(node.uuid(), {"1g.10gb": 7}))
        node.wait_ready()
        # The server shows what was written a moment before it has noted who wrote it.
        wait_for(lambda: rig.writes(mark, resource="devices"), 10, "the write in the server's log")

    assert len([w for w in rig.writes_while(change) if w["objectRef"]["resource"] == "devices"]) <= 2


# --- who uses a partition ---


def test_a_process_shows_with_its_pod(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"1g.10gb": 2}))
    node.wait_ready()
    uid = node.run_pod(f"{rig.id}-train", 0, node.instance("1g.10gb"), 4242)

    def used():
        return [p for p in node.card()["partitions"] if p.get("inUse")]

    (partition,) = wait_for(used, 30, "the process to be seen")
    (consumer,) = partition["inUseBy"]
    assert consumer["pid"] == 4242 and consumer["uid"] == uid
    assert consumer["process"] == f"{rig.id}-train"[:15]
    node.detach(4242)
    wait_for(lambda: not used(), 30, "the process to be gone")
    assert all("inUseBy" not in p or p["inUseBy"] == [] for p in node.card()["partitions"])


def test_a_partition_in_use_blocks_and_is_named_and_the_change_goes_on_when_it_is_free(rig):
    node = rig.node({"h100-80": 1})
    uuid = node.uuid()
    node.want(mig(uuid, {"3g.40gb": 2}))
    node.wait_ready()
    before = node.placements()
    busy = {p["uuid"] for p in node.card()["partitions"]}
    for i, instance in enumerate(node.cards()[0]["gpuInstances"]):
        node.attach(0, instance["id"], 500 + i, "--name", f"train{i}")
    node.want(mig(uuid, {"1g.10gb": 7}), rollout={"drain": "refuseIfInUse", "timeoutSeconds": 600})
    said = node.wait_applied("InUse")
    card = node.card()
    assert set(card["drain"]["partitions"]) == busy and "deadline" not in card["drain"]
    assert said["message"]
    assert is_true(node.status(), "Reconciling") and not is_true(node.status(), "Ready")
    assert node.placements() == before
    node.detach(500)
    node.wait_reads(2)
    assert node.placements() == before
    node.detach(501)
    node.wait_ready()
    assert node.layout() == {"1g.10gb": 7}
    assert "drain" not in node.card()


def test_what_a_change_may_keep_in_use_does_not_block_it(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"3g.40gb": 1, "2g.20gb": 1}))
    node.wait_ready()
    gi = node.instance("3g.40gb")
    place = next(i["placement"] for i in node.cards()[0]["gpuInstances"] if i["id"] == gi)
    node.attach(0, gi, 600)
    node.want(mig(node.uuid(), {"3g.40gb": 1, "1g.10gb": 3}))
    node.wait_ready()
    assert node.layout() == {"3g.40gb": 1, "1g.10gb": 3}
    assert next(i["placement"] for i in node.cards()[0]["gpuInstances"] if i["id"] == gi) == place


# --- what life does ---


def test_drift_is_put_right(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"2g.20gb": 3}))
    node.wait_ready()
    gi = node.instance("2g.20gb")
    node.agent.signal(signal.SIGSTOP)  # a reading between the two would put the first right
    node.smi("mig", "-i", 0, "-dci", "-gi", gi)
    node.smi("mig", "-i", 0, "-dgi", "-gi", gi)
    node.agent.signal(signal.SIGCONT)
    node.wait_layout({"2g.20gb": 3})
    node.wait_reads(1)  # what was Ready before it saw the drift is not what is meant
    node.wait_ready()
    agree(node)


def test_a_deleted_device_comes_back_and_no_card_is_touched(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"2g.20gb": 3}))
    uid = node.wait_ready()["metadata"]["uid"]
    partitions, changes = node.card()["partitions"], len(node.changes())
    rig.api.delete(node.path)
    wait_for(lambda: (rig.api.find(node.path) or {}).get("status") and node.device()["metadata"]["uid"] != uid, 30, "a new Device with a status")
    node.wait_ready()
    assert node.card()["partitions"] == partitions
    assert len(node.changes()) == changes


@pytest.mark.parametrize(
    "garbage",
    [
        {"devices": None},
        {"summary": {"gpus": 99, "layout": "nonsense"}, "resources": [{"name": "nvidia.com/gpu", "count": 1000, "publisher": "kubelet"}]},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "Made", "message": "by hand", "lastTransitionTime": "2020-01-01T00:00:00Z"}]},
        {"observedGeneration": 4711, "bootID": "x"},
    ],
    ids=["emptied", "wrong-numbers", "wrong-condition", "wrong-generation"],
)
def test_a_status_written_by_hand_is_put_right(rig, garbage):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"2g.20gb": 3}))
    right = node.wait_ready()["status"]
    rig.api.merge(f"{node.path}/status", {"status": garbage})

    def comparable(status):
        return {**status, "conditions": sorted((c["type"], c["status"], c["reason"]) for c in status["conditions"])}

    wait_for(lambda: comparable(node.status()) == comparable(right), 30, lambda: f"the status to be right again: {node.status()}")
    assert node.agent.running()
    node.wait_ready()


def test_a_spec_that_cannot_be_is_told_and_nothing_changes(rig):
    node = rig.node({"h100-80": 1, "l4": 1})
    first, second = (c["uuid"] for c in node.cards() if c["migCapable"]), (c["uuid"] for c in node.cards() if not c["migCapable"])
    cut, plain = next(first), next(second)
    index = next(c["index"] for c in node.cards() if c["uuid"] == cut)
    node.want(mig(cut, {"3g.40gb": 1}))
    node.wait_ready()
    before = node.placements(index)
    node.want(mig(cut, {"3g.40gb": 3}))
    assert "nearest" in node.wait_applied("Infeasible", index)["message"]
    node.want(mig(cut, {"9g.90gb": 1}))
    assert "9g.90gb" in node.wait_applied("UnknownProfile", index)["message"]
    node.want(mig(plain, {"1g.10gb": 1}))
    wait_for(lambda: condition(node.status(), "Ready").get("reason") in ("MIGUnsupported", "UnknownProfile"), 30, lambda: node.status()["conditions"])
    node.want(native("GPU-00000000-0000-4000-8000-000000000000"))
    wait_for(lambda: condition(node.status(), "Ready").get("reason") == "DeviceNotFound", 30, lambda: node.status()["conditions"])
    assert is_true(node.status(), "Stalled")
    assert node.placements(index) == before


def test_a_hanging_library_is_told_while_the_rest_goes_on(rig):
    node = rig.node({"h100-80": 1}, call_deadline_ms=2000)
    node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 1, "--action", "hang:30")
    node.want(mig(node.uuid(), {"1g.10gb": 1}))
    wait_for(lambda: condition(node.status(), "Ready").get("reason") == "NVMLTimeout", 30, lambda: node.status()["conditions"])
    assert "nvmlDeviceCreateGpuInstanceWithPlacement" in condition(node.status(), "Ready")["message"]
    assert serve(node.agent, "/healthz")[0] == 200 and serve(node.agent, "/readyz")[0] == 200
    assert "cleave_agent_library_stuck 1" in serve(node.agent, "/metrics")[1]
    rig.api.merge(f"{node.path}/status", {"status": {"summary": {"gpus": 99}}})
    wait_for(lambda: node.status()["summary"]["gpus"] == 1, 20, "the status to be written while the call hangs")
    assert condition(node.status(), "Ready")["reason"] == "NVMLTimeout"
    node.wait_ready(60)
    assert node.layout() == {"1g.10gb": 1}


def test_a_driver_that_is_not_there_is_waited_for(rig):
    node = rig.node(start=False)
    late = node.folder / "libnvidia-ml.so.1"
    node.start(nvml_library=late)
    wait_for(lambda: rig.api.find(node.path), 30, "the Device")
    wait_for(lambda: condition(node.status(), "Ready").get("reason") == "DriverNotLoaded", 30, "the reason")
    assert serve(node.agent, "/readyz")[0] == 200
    os.symlink(node.library, late)
    node.wait_ready()
    assert node.status()["summary"]["gpus"] == 1


def put_pci_device(node, address, pci_class, vendor):
    """As the kernel shows a device on the PCI bus."""
    folder = node.folder / "sys" / "bus" / "pci" / "devices" / address
    folder.mkdir(parents=True)
    (folder / "class").write_text(f"{pci_class:#08x}\n")
    (folder / "vendor").write_text(f"{vendor:#06x}\n")


def test_a_node_without_cards_is_ready_until_a_card_comes(rig):
    controller = rig.controller()
    node = rig.node(start=False)
    put_pci_device(node, "0000:00:02.0", 0x030000, 0x1234)
    put_pci_device(node, "0000:00:03.0", 0x020000, 0x1AF4)
    late = node.folder / "libnvidia-ml.so.1"
    profile = rig.profile("p", {"selector": {"vendor": "nvidia"}, "mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}})
    node.start(nvml_library=late, mxsml_library=node.folder / "none")
    wait_for(lambda: rig.api.find(node.path), 30, "the Device")
    node.wait_ready()
    assert condition(node.status(), "Ready")["reason"] == "NoCards"
    assert condition(node.status(), "Stalled") == {} and "labels" not in node.status()
    log = Path(node.agent.log).read_text()
    assert "Started cleave-agent" in log and f"node={node.name}" in log
    rig.wait_condition(profile, "Stalled", "DeviceNotFound")
    assert "no card of a vendor that Cleave knows" in condition(rig.api.get(profile), "Stalled")["message"]
    wait_for(lambda: "cleave_controller_devices_stalled 0" in serve(controller, "/metrics")[1], 10, "no Device that counts as stalled")
    assert not [key for key in node.labels() if key.startswith("feature.node.kubernetes.io/pci-")]

    node.ctl("sys-root", node.folder)
    wait_for(lambda: condition(node.status(), "Stalled").get("reason") == "DriverNotLoaded", 30, "the card to be missed by its driver")
    wait_for(lambda: "feature.node.kubernetes.io/pci-10de.present" in node.labels(), 30, "the label that installers of drivers select on")
    os.symlink(node.library, late)
    node.wait_layout({"1g.10gb": 7})
    rig.wait_ready(profile)


def test_a_card_that_falls_off_the_bus_is_told_and_the_others_go_on(rig):
    node = rig.node({"h100-80": 2})
    node.want(mig(node.uuid(0), {"1g.10gb": 1}), mig(node.uuid(1), {"1g.10gb": 1}))
    node.wait_ready()
    assert condition(node.card(0), "Healthy") == {}
    node.ctl("lost", "--gpu", 0, "set")
    wait_for(lambda: not node.card(0)["healthy"], 30, "the card to be unhealthy")
    assert condition(node.card(0), "Healthy")["reason"] == "GPULost"
    node.want(mig(node.uuid(0), {"1g.10gb": 1}), mig(node.uuid(1), {"2g.20gb": 1}))
    node.wait_layout({"2g.20gb": 1}, 1)
    wait_for(lambda: node.resources() == {"nvidia.com/mig-2g.20gb": 1}, 30, lambda: node.resources())
    node.ctl("lost", "--gpu", 0, "clear")
    wait_for(lambda: node.resources() == {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-2g.20gb": 1}, 30, node.resources)
    node.wait_ready()


@pytest.mark.parametrize("call", ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance", "nvmlGpuInstanceDestroy"])
def test_a_failing_call_rolls_back_to_the_placements_that_stood(rig, call):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"1g.10gb": 3, "3g.40gb": 1}))
    node.wait_ready()
    before = node.placements()
    node.ctl("fault", "add", "--call", call, "--nth", 2, "--action", "fail:UNKNOWN")
    node.want(mig(node.uuid(), {"1g.10gb": 1, "2g.20gb": 3}))
    said = node.wait_applied("RolledBack")
    node.agent.signal(signal.SIGSTOP)  # it tries again two seconds later
    assert node.placements() == before
    assert call in said["message"]
    node.agent.signal(signal.SIGCONT)
    node.wait_ready(60)
    assert node.layout() == {"1g.10gb": 1, "2g.20gb": 3}
    agree(node)


def test_a_change_that_was_rolled_back_is_stalled_and_told(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"1g.10gb": 3, "3g.40gb": 1}))
    node.wait_ready()
    before = node.placements()
    node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 1, "--action", "fail:UNKNOWN")
    node.want(mig(node.uuid(), {"2g.20gb": 3}), failurePolicy="rollback")
    node.wait_applied("RolledBack")
    node.agent.signal(signal.SIGSTOP)  # it tries again two seconds later
    assert node.placements() == before
    assert is_true(node.status(), "Stalled")
    node.agent.signal(signal.SIGCONT)
    assert any(e["type"] == "Warning" for e in wait_for(lambda: rig.events(node.name, "RolledBack"), 30, "an Event"))


def test_hold_leaves_the_card_as_the_failure_left_it(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"3g.40gb": 2}), failurePolicy="hold")
    node.wait_ready()
    node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 3, "--action", "fail:UNKNOWN")
    node.want(mig(node.uuid(), {"1g.10gb": 7}), failurePolicy="hold")
    node.wait_applied("Held")
    held = node.placements()
    assert len(held) == 2
    node.wait_reads(3)
    assert node.placements() == held
    agree(node)
    node.want(mig(node.uuid(), {"1g.10gb": 6}), failurePolicy="hold")
    node.wait_ready()
    assert node.layout() == {"1g.10gb": 6}


# --- deaths and restarts ---


@pytest.mark.parametrize("action", ["kill", "kill-after"])
@pytest.mark.parametrize("nth", [1, 2, 4, 6, 9])
def test_an_agent_killed_in_a_change_ends_in_the_target(rig, action, nth):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"1g.10gb": 3, "3g.40gb": 1}))
    node.wait_ready()
    kept = next(p["uuid"] for p in node.card()["partitions"] if p["profile"] == "3g.40gb")
    node.ctl("fault", "add", "--call", "mutating", "--nth", nth, "--action", action)
    node.want(mig(node.uuid(), {"2g.20gb": 2, "3g.40gb": 1}))
    wait_for(lambda: not node.agent.running() or is_current(node.device()), 30, "the agent to be killed")
    if not node.agent.running():
        assert node.agent.popen.returncode == -signal.SIGKILL
        node.ctl("fault", "clear")
        node.start()
    node.wait_ready()
    assert node.layout() == {"2g.20gb": 2, "3g.40gb": 1}
    assert kept in {p["uuid"] for p in node.card()["partitions"]}
    assert not list((node.folder / "state").glob("*.json"))
    agree(node)


def test_a_recovery_that_hangs_holds_up_its_own_card_only(rig):
    node = rig.node({"h100-80": 2}, call_deadline_ms=2000)
    node.want(mig(node.uuid(0), {"1g.10gb": 3}), mig(node.uuid(1), {"1g.10gb": 3}))
    node.wait_ready()
    node.ctl("fault", "add", "--call", "mutating", "--gpu", 0, "--nth", 2, "--action", "kill")
    node.want(mig(node.uuid(0), {"3g.40gb": 2}), mig(node.uuid(1), {"1g.10gb": 3}))
    wait_for(lambda: not node.agent.running(), 30, "the agent to be killed")
    node.ctl("fault", "clear")
    node.ctl("fault", "add", "--call", "mutating", "--gpu", 0, "--nth", 1, "--action", "hang:600")
    node.start(call_deadline_ms=2000)
    wait_for(lambda: condition(node.status(), "Ready").get("reason") == "NVMLTimeout", 30, "the hang to be told")
    assert node.resources() == {"nvidia.com/mig-1g.10gb": 3}
    node.want(mig(node.uuid(0), {"3g.40gb": 2}), mig(node.uuid(1), {"2g.20gb": 2}))
    node.wait_layout({"2g.20gb": 2}, 1)
    wait_for(lambda: node.resources() == {"nvidia.com/mig-2g.20gb": 2}, 30, node.resources)
    assert node.agent.stop() == 1
    node.ctl("fault", "clear")
    node.start()
    node.wait_ready()
    assert node.layouts() == [{"3g.40gb": 2}, {"2g.20gb": 2}]


def test_an_agent_that_starts_again_changes_and_writes_nothing(rig):
    node = rig.node({"h100-80": 2})
    node.want(mig(node.uuid(), {"1g.10gb": 3, "3g.40gb": 1}))
    node.wait_ready()
    changes = len(node.changes())

    def again():
        assert node.agent.stop() == 0
        reads = node.reads()
        node.start()
        wait_for(lambda: node.reads() >= reads + 3, 30, "the agent to have looked")

    assert rig.writes_while(again) == []
    assert len(node.changes()) == changes


def test_an_agent_that_waits_for_a_slow_driver_takes_nothing_back(rig):
    node = rig.node({"h100-80": 2})
    node.want(mig(node.uuid(), {"1g.10gb": 3, "3g.40gb": 1}))
    node.wait_ready()
    assert node.agent.stop() == 0
    reads = node.reads()
    node.ctl("latency", "set", "nvmlInit_v2", "1s")

    def again():
        node.start()
        wait_for(lambda: node.reads() > reads + 1, 30, "the agent to have looked")

    assert rig.writes_while(again) == []


def test_cards_are_kept_right_while_the_api_server_is_silent(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"2g.20gb": 3}))
    node.wait_ready()
    with ApiServer(rig.cluster).stopped():
        gi = node.instance("2g.20gb")
        node.agent.signal(signal.SIGSTOP)  # a reading between the two would put the first right
        node.smi("mig", "-i", 0, "-dci", "-gi", gi)
        node.smi("mig", "-i", 0, "-dgi", "-gi", gi)
        node.agent.signal(signal.SIGCONT)
        node.wait_layout({"2g.20gb": 3})
        assert serve(node.agent, "/healthz")[0] == 200
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    node.wait_ready(60)
    assert node.layout() == {"1g.10gb": 7}
    agree(node)


def test_a_reboot_is_seen_and_the_layout_comes_back(rig):
    node = rig.node({"h100-80": 1, "a100-80": 1})
    node.want(*(mig(c["uuid"], {"1g.10gb": 2, "3g.40gb": 1}) for c in node.cards()))
    before = node.wait_ready()["status"]["bootID"]
    node.agent.kill()
    node.ctl("reboot")
    assert all(layout in ("native", {}) for layout in node.layouts())
    node.start()
    wait_for(lambda: node.status()["bootID"] != before, 30, "the new boot id")
    node.wait_ready()
    assert node.layouts() == [{"1g.10gb": 2, "3g.40gb": 1}] * 2
    agree(node)


def test_a_reboot_in_the_middle_of_a_change_ends_in_the_target(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"3g.40gb": 2}))
    node.wait_ready()
    node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 3, "--action", "kill")
    node.want(mig(node.uuid(), {"1g.10gb": 7}))
    wait_for(lambda: not node.agent.running(), 30, "the agent to be killed")
    node.ctl("reboot")
    node.start()
    node.wait_ready()
    assert node.layout() == {"1g.10gb": 7}


def test_a_spec_that_changes_while_the_agent_is_away_is_met_later(rig):
    node = rig.node({"h100-80": 1})
    node.want(mig(node.uuid(), {"3g.40gb": 2}))
    node.wait_ready()
    node.agent.kill()
    node.want(mig(node.uuid(), {"7g.80gb": 1}))
    node.start()
    node.wait_ready()
    assert node.layout() == {"7g.80gb": 1}


def test_sigterm_ends_an_agent_within_seconds_even_in_a_hanging_call(rig):
    node = rig.node({"h100-80": 1}, call_deadline_ms=2000)
    node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 1, "--action", "hang:60")
    node.want(mig(node.uuid(), {"1g.10gb": 1}))
    wait_for(lambda: condition(node.status(), "Ready").get("reason") == "NVMLTimeout", 30, "the hang to be told")
    assert node.agent.stop() == 1
    assert "hanging library call" in node.agent.tail()
    node.ctl("fault", "clear")
    node.start()
    node.wait_ready()


@pytest.mark.long
def test_an_agent_under_the_sanitizers_leaks_nothing(rig):
    program, env = sanitized("cleave-agent")
    node = rig.node(start=False)
    node.start(program, env=env)
    wait_for(lambda: rig.api.find(node.path), 60, "the Device")
    node.wait_ready(60)
    node.want(mig(node.uuid(), {"1g.10gb": 3, "3g.40gb": 1}))
    node.wait_ready(60)
    node.attach(0, node.instance("3g.40gb"), 77)
    node.want(mig(node.uuid(), {"7g.80gb": 1}))
    node.wait_applied("InUse", timeout=60)
    node.detach(77)
    node.wait_ready(60)
    rig.api.delete(node.path)
    wait_for(lambda: rig.api.find(node.path) and node.status(), 60, "the Device again")
    assert node.agent.stop(30) == 0
    assert "ERROR: " not in node.agent.text() and "runtime error" not in node.agent.text()


def children(pid):
    """The pids of a process's children, of all its threads."""
    return {int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()}


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True


def is_set_up(pid):
    """Has said that it ends with its parent: before its system calls were filtered, and before it loaded the driver's library."""
    return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text() or "libnvidia-ml" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_an_agent_stays_when_it_ends(rig, kind):
    """With the DaemonSet's capabilities: its HTTP children have another user, and only KILL lets it end them."""
    node = rig.node({"h100-80": 1})
    node.wait_ready()
    began = children(node.agent.pid)
    assert len(began) >= 2, "one that serves pages, and one that waits for the driver's events"
    wait_for(lambda: all(is_set_up(child) for child in began), message="the agent's children to be set up")
    # A child that does not end by itself.
    for child in began:
        os.kill(child, signal.SIGSTOP)
    node.agent.signal(kind)
    wait_for(lambda: not node.agent.running(), 20, "the agent to end")
    wait_for(lambda: all(is_gone(child) for child in began), message="its children to end")


def test_its_children_run_programs_of_their_own(rig, release):
    """They are smaller, and have no API client in them."""
    node = rig.node({"h100-80": 1})
    node.wait_ready()
    programs = {os.readlink(f"/proc/{child}/exe") for child in children(node.agent.pid)}
    assert programs == {str(release(name)) for name in ("cleave-child", "cleave-watch")}


# --- is the node ready? ---


def say(node, kind):
    """Status and reason of a condition: "False DriverNotLoaded"; "" when there is none."""
    found = condition(node.status(), kind)
    return f"{found['status']} {found['reason']}" if found else ""


def wait_says(node, kind, expected, words=""):
    def told():
        return say(node, kind) == expected and words in condition(node.status(), kind)["message"]

    wait_for(told, 30, lambda: f"{kind} to say {expected}, {words}: {condition(node.status(), kind)}")


def test_an_installer_is_told_what_is_missing_of_the_driver(rig):
    node = rig.node(start=False)
    host = node.folder / "host"
    host.mkdir()
    late = node.folder / "libnvidia-ml.so.1"
    node.ctl("sys-root", node.folder)
    module = node.folder / "sys" / "module" / "nvidia"
    module.rename(node.folder / "unloaded")
    node.start(nvml_library=late, dev_root=host)
    wait_for(lambda: rig.api.find(node.path), 30, "the Device")
    wait_says(node, "DriverReady", "False DriverNotLoaded", "install NVIDIA's driver")
    (node.folder / "unloaded").rename(module)
    wait_says(node, "DriverReady", "False LibraryNotFound", "not found on the host either")
    node.ctl("driver-root", host)
    wait_says(node, "DriverReady", "False LibraryNotFound", "component host-driver")
    node.ctl("fault", "add", "--call", "nvmlInit_v2", "--nth", 0, "--action", "fail:LIB_RM_VERSION_MISMATCH")
    os.symlink(node.library, late)
    wait_says(node, "DriverReady", "False DriverVersionMismatch", "reboot the node")
    assert condition(node.status(), "Stalled")["reason"] == "DriverVersionMismatch"
    node.ctl("fault", "clear")
    wait_says(node, "DriverReady", "True Loaded", "580.95.05")
    (module / "version").write_text("570.86.15\n")
    wait_says(node, "DriverReady", "False DriverVersionMismatch", "of 570.86.15")


def test_an_installer_is_told_of_persistence_mode_and_of_a_reset(rig):
    node = rig.node({"h100-80": 2})
    wait_says(node, "PersistenceMode", "False Disabled", "2 of 2 cards")
    wait_says(node, "RebootRequired", "False NotRequired")
    node.ctl("persistence", "--gpu", 0, 1)
    wait_says(node, "PersistenceMode", "False Disabled", "1 of 2 cards (NVIDIA GPU 1)")
    node.ctl("persistence", "--gpu", 1, 1)
    wait_says(node, "PersistenceMode", "True Enabled")
    node.ctl("recovery-action", "--gpu", 1, "reboot")
    wait_says(node, "RebootRequired", "True RebootRequired", "NVIDIA GPU 1: the driver asks for a reboot")
    node.ctl("recovery-action", "--gpu", 1, "none")
    wait_says(node, "RebootRequired", "False NotRequired")
    assert rig.writes_while(lambda: node.wait_reads(3)) == [], "a quiet node is not written"
