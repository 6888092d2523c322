# SPDX-License-Identifier: Apache-2.0
"""Labels that describe GPUs, from the cards to the Node: what feature discovery would write, without it."""

import pytest
from conftest import ROOT, wait_for
from stack import MERGE, rig  # noqa: F401
from test_profiles import cut, whole

GOLDEN = ROOT / "test" / "golden" / "labels"
OURS = ("nvidia.com/", "feature.node.kubernetes.io/pci-", "gpu.cleave.dev/")
# What golden files of another machine and driver do not say of this one.
OTHERS = ("nvidia.com/gfd.timestamp", "nvidia.com/gpu.clique", "nvidia.com/gpu.machine", "nvidia.com/cuda.", "feature.node.kubernetes.io/pci-", "nvidia.com/mig.config")
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def described(node):
    return {k: v for k, v in node.labels().items() if k.startswith(OURS)}


def comparable(labels):
    return {k: v for k, v in labels.items() if not k.startswith(OTHERS)}


def golden(name):
    return comparable(dict(line.split("=", 1) for line in (GOLDEN / f"{name}.txt").read_text().splitlines()))


def wait_labels(node, wanted, timeout=30):
    wait_for(lambda: comparable(described(node)) == wanted, timeout, lambda: f"{node.name} says {described(node)}")


def wait_label(node, key, value, timeout=30):
    wait_for(lambda: node.labels().get(key) == value, timeout, lambda: f"{key} of {node.name} is {node.labels().get(key)}, not {value}")


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


@pytest.fixture
def described_node(rig):
    rig.controller()

    def make(fleet, start=True, **flags):
        node = rig.node(fleet, start=False)
        if start:
            node.ctl("sys-root", node.folder)  # what the kernel shows of the cards
            node.start(**flags)
        return node

    return make


@pytest.mark.parametrize("model", ["a100-80", "h100-80", "rtx-pro-6000", "t4"])
def test_a_node_says_what_feature_discovery_would_say(described_node, model):
    node = described_node({model: 2})
    wait_labels(node, golden(f"{model}-whole"))
    labels = node.labels()
    assert labels["nvidia.com/cuda.driver-version.full"] == "580.95.05" and labels["nvidia.com/cuda.runtime.minor"] == "0"
    assert labels["feature.node.kubernetes.io/pci-10de.present"] == labels["feature.node.kubernetes.io/pci-0302_10de.present"] == "true"
    assert int(labels["nvidia.com/gfd.timestamp"]) > 1_600_000_000


def test_labels_follow_the_layout(rig, described_node):
    node = described_node({"h100-80": 2})
    wait_labels(node, golden("h100-80-whole"))
    stamp = node.labels()["nvidia.com/gfd.timestamp"]
    profile = rig.profile("p", cut({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, indices=[0]), whole())
    rig.wait_ready(profile)
    wait_labels(node, golden("h100-80-mixed"))
    assert node.labels()["nvidia.com/gfd.timestamp"] >= stamp
    rig.api.merge(profile, {"spec": {"devices": [cut({"7g.80gb": 1}, indices=[0])]}})
    wait_label(node, "nvidia.com/mig-7g.80gb.count", "1")
    assert not [k for k in node.labels() if k.startswith("nvidia.com/mig-1g.10gb.")]
    assert node.labels()["test"] == rig.id


def test_strategy_single_and_sharing_show_in_the_product(rig, described_node):
    node = described_node({"h100-80": 2})
    rig.wait_ready(rig.profile("p", cut({"1g.10gb": 7}), migStrategy="single"))
    wait_labels(node, golden("h100-80-single"))


def test_shared_cards_are_marked(rig, described_node):
    node = described_node({"h100-80": 2})
    rig.wait_ready(rig.profile("p", {**whole(), "sharing": {"timeSlicing": {"replicas": 4}}}))
    wait_labels(node, golden("h100-80-time-slicing"))


def test_labels_go_with_the_device(rig, described_node):
    node = described_node({"a100-80": 1})
    wait_label(node, "nvidia.com/gpu.count", "1")
    node.agent.stop()
    rig.api.delete(node.path)
    wait_for(lambda: not described(node), 30, lambda: described(node))
    assert node.labels()["test"] == rig.id


def test_the_machine_shows_its_pci_devices_without_a_driver(described_node):
    node = described_node({"h100-80": 1}, start=False)
    put(node.folder / "sys/class/dmi/id", product_name="PowerEdge XE9680")
    put(node.folder / "sys/bus/pci/devices/0000:3b:00.0", **{"class": "0x030200", "vendor": "0x10de", "sriov_totalvfs": "16"})
    put(node.folder / "sys/bus/pci/devices/0000:03:00.0", **{"class": "0x020700", "vendor": "0x15b3"})
    node.start(nvml_library="/nonexistent/libnvidia-ml.so.1")
    wait_for(
        lambda: set(described(node))
        == {
            "feature.node.kubernetes.io/pci-0302_10de.present",
            "feature.node.kubernetes.io/pci-0302_10de.sriov.capable",
            "feature.node.kubernetes.io/pci-10de.present",
            "feature.node.kubernetes.io/pci-10de.sriov.capable",
            "feature.node.kubernetes.io/pci-15b3.present",
        },
        30,
        lambda: described(node),
    )
    node.agent.stop()
    node.start()
    wait_label(node, "nvidia.com/gpu.machine", "PowerEdge-XE9680")


def test_a_feature_discovery_keeps_what_it_wrote(rig, described_node):
    node = described_node({"h100-80": 1}, start=False)
    path = f"/api/v1/nodes/{node.name}"
    theirs = {"nvidia.com/gpu.product": "Theirs", "feature.node.kubernetes.io/pci-10de.present": "true"}
    rig.api.request("PATCH", f"{path}?fieldManager=nfd-master", {"metadata": {"labels": theirs}}, MERGE)
    node.start()
    wait_label(node, "nvidia.com/gpu.count", "1")
    node.wait_reads(2)
    assert node.labels()["nvidia.com/gpu.product"] == "Theirs"
    rig.api.request("PATCH", f"{path}?fieldManager=nfd-master", {"metadata": {"labels": {"nvidia.com/gpu.product": None}}}, MERGE)
    wait_label(node, "nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")


def test_a_label_changed_by_hand_is_put_right(described_node):
    node = described_node({"h100-80": 1})
    wait_label(node, "nvidia.com/gpu.count", "1")
    node.label(**{"nvidia.com/gpu.count": "9", "nvidia.com/gpu.family": None})
    wait_label(node, "nvidia.com/gpu.count", "1")
    wait_label(node, "nvidia.com/gpu.family", "hopper")


def test_an_agent_labels_its_node_with_nothing_else(rig, described_node):
    node = described_node({"h100-80": 1})
    wait_label(node, "nvidia.com/gpu.count", "1")
    node.agent.stop()
    evil = {CONTROL_PLANE: "", "test": "other", "nvidia.com/mig.config": "all-disabled", "nvidia.com/gpu.machine": "honest"}
    rig.api.request("PATCH", f"{node.path}/status", {"status": {"labels": evil}}, MERGE)
    wait_label(node, "nvidia.com/gpu.machine", "honest")
    labels = node.labels()
    assert CONTROL_PLANE not in labels and labels["test"] == rig.id and "nvidia.com/mig.config" not in labels


def test_once_said_nothing_more_is_written(rig, described_node):
    node = described_node({"h100-80": 1})
    wait_labels(node, {k: "1" if k.endswith(".count") and not k.startswith("nvidia.com/mig-") else v for k, v in golden("h100-80-whole").items()})
    node.wait_reads(2)
    assert rig.writes_while(lambda: node.wait_reads(3)) == []
