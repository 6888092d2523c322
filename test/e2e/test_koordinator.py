# SPDX-License-Identifier: Apache-2.0
"""Koordinator's Device and its resources on a real API server: with its kind, without it, and beside koordlet."""

import json

import pytest
from conftest import wait_for
from koordinator_kind import CRD, DEVICES, install, uninstall
from replicas import accepted, replicas
from stack import FLEETS, SIM, ApiError, condition, is_current, rig  # noqa: F401

MIB = 1 << 20
H100_MIB = 81559


@pytest.fixture
def koordinator(rig):
    install(rig)
    yield rig
    rig.processes.end()
    uninstall(rig)


def mirror(node):
    return node.api.find(f"{DEVICES}/{node.name}")


def wait_mirror(node, timeout=30):
    return wait_for(lambda: mirror(node), timeout, f"Koordinator's Device of {node.name}")


def shown(node):
    """Which cards Koordinator may give out: {uuid: healthy}."""
    return {d["id"]: d["health"] for d in (mirror(node) or {"spec": {}})["spec"].get("devices", [])}


def offers(node):
    """Allocatable under koordinator.sh/, after a look that capacity says the same."""
    status = node.node_object()["status"]
    given, has = ({k.split("/")[1]: v for k, v in status.get(m, {}).items() if k.startswith("koordinator.sh/")} for m in ("allocatable", "capacity"))
    return given if given == has else {"allocatable": given, "capacity": has}


def of_cards(n):
    return {"gpu": str(100 * n), "gpu-core": str(100 * n), "gpu-memory": f"{H100_MIB * n}Mi", "gpu-memory-ratio": str(100 * n), "gpu.shared": str(100 * n)}


def wait_offers(node, wanted, timeout=30):
    wait_for(lambda: offers(node) == wanted, timeout, lambda: f"{wanted}, not {offers(node)}")


def started(rig, fleet, **flags):
    """A node whose /sys shows the cards."""
    node = rig.node(fleet, start=False)
    node.ctl("sys-root", node.folder)
    node.start(**flags)
    wait_for(lambda: is_current(node.device()), 30, "the agent")
    return node


def bus_id(card):
    """As the kernel spells it."""
    return card["pciBusID"].lower()[-len("0000:00:00.0") :]


def root_of(node, card):
    return (node.folder / "sys" / "bus" / "pci" / "devices" / bus_id(card)).resolve().parts[-3]


# --- with it ---


def test_the_device_and_the_resources_are_what_koordinator_expects(koordinator):
    koordinator.controller()
    node = started(koordinator, {"h100-80": 2})
    device = wait_mirror(node)
    (owner,) = device["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", node.name, node.node_object()["metadata"]["uid"])
    labels = device["metadata"]["labels"]
    assert labels["node.koordinator.sh/gpu-vendor"] == "nvidia"
    assert labels["node.koordinator.sh/gpu-model"] == "H100-80GB-HBM3"
    assert labels["node.koordinator.sh/gpu-driver-version"] == "580.95.05"
    for number, (given, card) in enumerate(zip(device["spec"]["devices"], node.cards_told(), strict=True)):
        assert condition(given, "Healthy")["reason"] == "DeviceHealthy"
        assert given["topology"] == {"socketID": -1, "nodeID": card["numaNode"], "pcieID": root_of(node, card), "busID": bus_id(card)}
        assert {k: given[k] for k in ("type", "id", "minor", "health", "resources")} == {
            "type": "gpu",
            "id": card["uuid"],
            "minor": number,
            "health": True,
            "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": f"{H100_MIB}Mi", "koordinator.sh/gpu-memory-ratio": "100"},
        }
    wait_offers(node, of_cards(2))


def test_nothing_is_written_in_the_quiet(koordinator):
    koordinator.controller()
    node = koordinator.node({"h100-80": 2})
    wait_mirror(node)
    wait_offers(node, of_cards(2))
    node.wait_reads(2)  # the Device follows the Node
    assert koordinator.writes_while(lambda: node.wait_reads(3)) == []


def test_a_card_that_falls_ill_is_taken_back_at_once_and_comes_back(koordinator):
    koordinator.controller()
    node = koordinator.node({"h100-80": 2})
    first, second = (c["uuid"] for c in node.cards())
    wait_for(lambda: shown(node) == {first: True, second: True}, 30, "both cards")
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: shown(node) == {first: False, second: True}, 30, lambda: f"the first card to be ill: {shown(node)}")
    wait_offers(node, of_cards(1))
    why = condition(mirror(node)["spec"]["devices"][0], "Healthy")
    assert why["status"] == "False" and why["reason"] == "ResetRequired"
    node.ctl("recovery-action", "--gpu", 0, "none")
    wait_for(lambda: shown(node) == {first: True, second: True}, 30, "both cards again")
    wait_offers(node, of_cards(2))


def test_what_a_kubelet_resets_is_written_again(koordinator):
    koordinator.controller()
    node = koordinator.node({"h100-80": 2})
    wait_offers(node, of_cards(2))
    zeros = {f"koordinator.sh/{name}": "0" for name in of_cards(2)}
    node.api.merge(f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": zeros, "allocatable": zeros}})
    wait_offers(node, of_cards(2))


def test_labels_and_annotations_of_others_survive(koordinator):
    koordinator.controller()
    node = koordinator.node({"h100-80": 2})
    wait_mirror(node)
    node.api.merge(f"{DEVICES}/{node.name}", {"metadata": {"labels": {"site": "a"}, "annotations": {"note": "b"}}})
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: False in shown(node).values(), 30, "the card to be ill")
    meta = mirror(node)["metadata"]
    assert meta["labels"]["site"] == "a" and meta["annotations"]["note"] == "b"


def test_cards_that_are_cut_leave_and_the_device_with_the_last(koordinator):
    koordinator.controller()
    node = koordinator.node({"h100-80": 2})
    wait_mirror(node)
    node.label(**{"nvidia.com/mig.config": "all-1g.10gb"})
    wait_for(lambda: mirror(node) is None, 30, "the Device to be removed")
    wait_offers(node, {})
    node.label(**{"nvidia.com/mig.config": "all-disabled"})
    wait_mirror(node)
    wait_offers(node, of_cards(2))


def test_the_device_goes_with_its_node(koordinator):
    koordinator.controller()
    node = koordinator.node({"h100-80": 1})
    wait_mirror(node)
    node.agent.stop()
    node.api.delete(f"/api/v1/nodes/{node.name}")
    wait_for(lambda: mirror(node) is None, 120, "the Device to be collected")


# --- MetaX ---

SLICED = {"selector": {"vendor": "metax"}, "mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share"}}


def wait_shown(node, healthy):
    wait_for(lambda: list(shown(node).values()) == healthy, 30, lambda: f"{healthy}, not {shown(node)}")


def test_cards_of_metax_are_shown_while_they_are_sliced_for_pods(koordinator):
    koordinator.controller()
    node = started(koordinator, FLEETS / "c500.yaml", mxsml_library=SIM / "libmxsml.so")
    wait_for(lambda: node.node_object()["status"]["allocatable"].get("metax-tech.com/gpu") == "4", 30, "the whole cards")
    assert mirror(node) is None and offers(node) == {}
    koordinator.wait_ready(koordinator.profile("p", SLICED))
    wait_shown(node, [True] * 4)
    device = mirror(node)
    assert device["metadata"]["labels"]["node.koordinator.sh/gpu-vendor"] == "metax"
    assert device["metadata"]["labels"]["node.koordinator.sh/gpu-model"] == "C500"
    assert device["metadata"]["labels"]["node.koordinator.sh/gpu-partition-policy"] == "Prefer"
    groups = json.loads(device["metadata"]["annotations"]["scheduling.koordinator.sh/gpu-partitions"])
    assert {size: [p["minors"] for p in found] for size, found in groups.items()} == {
        "1": [[0], [1], [2], [3]],
        "2": [[0, 1], [2, 3]],
        "4": [[0, 1, 2, 3]],
    }
    for number, (given, card) in enumerate(zip(device["spec"]["devices"], node.cards_told(), strict=True)):
        assert (given["id"], given["minor"]) == (card["uuid"], number)
        assert given["resources"] == {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "64Gi", "koordinator.sh/gpu-memory-ratio": "100"}
        assert given["topology"]["pcieID"].startswith("pci0000:")
    wait_offers(node, {"gpu-core": "400", "gpu-memory": "256Gi", "gpu-memory-ratio": "400", "gpu.shared": "400"})
    node.ctl("ecc", "--gpu", "metax:1", "dram-ue", 1)
    wait_shown(node, [True, False, True, True])
    wait_offers(node, {"gpu-core": "300", "gpu-memory": "192Gi", "gpu-memory-ratio": "300", "gpu.shared": "300"})


def test_of_two_vendors_on_a_node_the_one_that_its_label_names_is_shown(koordinator):
    koordinator.controller()
    node = started(koordinator, FLEETS / "two-vendors.yaml", mxsml_library=SIM / "libmxsml.so")
    koordinator.wait_ready(koordinator.profile("p", SLICED))
    uuids = {vendor: {c["uuid"] for c in node.cards_told() if c["vendor"] == vendor} for vendor in ("nvidia", "metax")}
    for vendor in ("nvidia", "metax"):
        node.label(**{"node.koordinator.sh/gpu-vendor": vendor})
        wait_for(lambda v=vendor: shown(node).keys() == uuids[v], 30, lambda v=vendor: f"the cards of {v}, not {shown(node)}")
        assert mirror(node)["metadata"]["labels"]["node.koordinator.sh/gpu-vendor"] == vendor
        wait_for(lambda v=vendor: ("gpu" in offers(node)) == (v == "nvidia"), 30, lambda: offers(node))


# --- coming and going ---


def test_without_the_kind_nothing_is_written_and_with_it_all_at_once(rig):
    rig.controller()
    node = rig.node({"h100-80": 1})
    node.wait_reads(3)
    assert offers(node) == {}
    install(rig)
    try:
        wait_mirror(node)
        wait_offers(node, of_cards(1))
    finally:
        uninstall(rig)
    wait_offers(node, {})
    install(rig)
    try:
        wait_mirror(node)
    finally:
        rig.processes.end()
        uninstall(rig)


def test_turned_off_it_writes_nothing(koordinator):
    koordinator.controller(koordinator="off")
    node = koordinator.node({"h100-80": 1})
    node.label(**{"nvidia.com/mig.config": "all-disabled"})
    wait_for(lambda: node.labels().get("nvidia.com/mig.config.state") == "success", 30, "the label")
    assert mirror(node) is None and offers(node) == {}


def test_of_two_replicas_one_writes(koordinator):
    first, second = replicas(koordinator, "one", "two")
    mark = koordinator.cluster.audit_mark()
    node = koordinator.node({"h100-80": 1})
    wait_mirror(node)
    wait_offers(node, of_cards(1))
    assert ("create", "devices", node.name) in accepted(koordinator, first, mark)
    assert accepted(koordinator, second, mark) == []


def test_a_controller_that_was_away_takes_back_what_went(koordinator):
    controller = koordinator.controller()
    node = koordinator.node({"h100-80": 2})
    wait_offers(node, of_cards(2))
    controller.stop()
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: not node.card(0)["healthy"], 30, "the card to be ill")
    koordinator.controller("again")
    wait_for(lambda: False in shown(node).values(), 30, "the card to be ill for Koordinator too")
    wait_offers(node, of_cards(1))


# --- beside others ---


def as_koordlet(rig, method, path, obj):
    """A write whose field manager is koordlet's."""
    return rig.api.request(method, f"{path}?fieldManager=koordlet", obj)


def test_what_koordlet_has_written_is_left_alone(koordinator):
    node = koordinator.node({"h100-80": 1})
    whole = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": f"{H100_MIB}Mi", "koordinator.sh/gpu-memory-ratio": "100"}
    gpus = [{"type": "gpu", "id": f"x{i}", "minor": i, "health": True, "resources": whole} for i in range(2)]
    spec = {"devices": [*gpus, {"type": "rdma", "id": "0000:01:00.0", "minor": 0, "health": True}]}
    obj = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": node.name}, "spec": spec}
    as_koordlet(koordinator, "POST", DEVICES, obj)
    koordinator.controller()
    wait_offers(node, of_cards(2))  # what koord-manager makes of it, whatever the agent says
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: not node.card(0)["healthy"], 30, "the card to be ill")
    obj = mirror(node)
    assert obj["spec"] == spec
    obj["spec"]["devices"][1]["health"] = False
    as_koordlet(koordinator, "PUT", f"{DEVICES}/{node.name}", obj)
    wait_offers(node, of_cards(1))
    node.api.delete(f"{DEVICES}/{node.name}")
    wait_for(lambda: shown(node) == {node.uuid(): False}, 30, "the Device to be ours once koordlet's is gone")


def test_koordlets_file_follows_the_cards(rig):
    folder = rig.folder / "infos"
    node = rig.node({"h100-80": 2}, koordinator_device_infos=folder)
    told = wait_for(lambda: (folder / "cleave").is_file() and json.loads((folder / "cleave").read_text()), 30, "the file")
    assert [d["uuid"] for d in told] == [c["uuid"] for c in node.cards()]
    assert told[1]["minor"] == "1" and told[1]["vendor"] == "nvidia" and told[1]["status"] == {"healthy": True}
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: json.loads((folder / "cleave").read_text())[0]["status"]["healthy"] is False, 30, "the card to be ill")
    assert json.loads((folder / "cleave").read_text())[0]["status"]["errCode"] == "ResetRequired"
    assert [p.name for p in folder.iterdir() if p.is_file()] == ["cleave"]


# --- the definition ---


@pytest.mark.parametrize("reason,taken", [("ECCError", True), ("Xid:79", True), ("ECC error", False), ("-8001", False)])
def test_the_definition_judges_reasons_as_koordinators_does(koordinator, reason, taken):
    well = {"type": "Healthy", "status": "False", "reason": reason, "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    spec = {"devices": [{"type": "gpu", "id": "x", "minor": 0, "health": False, "conditions": [well]}]}
    obj = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "judged"}, "spec": spec}
    if taken:
        koordinator.api.request("POST", f"{DEVICES}?dryRun=All", obj)
        return
    with pytest.raises(ApiError) as refused:
        koordinator.api.request("POST", f"{DEVICES}?dryRun=All", obj)
    assert refused.value.code == 422


def test_the_definition_takes_numbers_for_quantities_and_fills_in_health(koordinator):
    spec = {"devices": [{"type": "gpu", "health": True, "resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "64Gi"}}]}
    obj = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "judged"}, "spec": spec}
    assert koordinator.api.request("POST", f"{DEVICES}?dryRun=All", obj)["spec"] == spec
    del spec["devices"][0]["health"]
    assert koordinator.api.request("POST", f"{DEVICES}?dryRun=All", obj)["spec"]["devices"][0]["health"] is False
