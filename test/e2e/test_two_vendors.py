# SPDX-License-Identifier: Apache-2.0
"""One node with cards of two vendors: one policy, one list of resources, and no trouble of one that reaches the other."""

import json
import re

import pytest
from conftest import wait_for
from kubelet_stub import kubelet  # noqa: F401
from stack import condition, mig, rig  # noqa: F401
from test_plugin_stub import Host

NVIDIA = {"nvidia.com/mig-1g.10gb": 14}
METAX = {"metax-tech.com/sgpu": 32}
POLICY = (
    {"selector": {"vendor": "nvidia"}, "mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}},
    {"selector": {"vendor": "metax"}, "mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share"}},
)
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def host(rig, kubelet):
    """Two H100 and two C500, and a controller."""
    h = Host(rig, kubelet, {"h100-80": 2, "c500": 2})
    h.node.ctl("sys-root", h.node.folder)
    rig.controller()
    h.start()
    wait_for(h.node.agrees, 30, "the agent")
    return h


@pytest.fixture
def both(host):
    """Each vendor's cards in a mode of their own."""
    host.node.rig.profile("both", *POLICY)
    host.kubelet.wait_offers(**NVIDIA, **METAX)
    return host


def pod(host, name):
    """A pod that asks for a tenth of a C500, admitted by the kubelet."""
    name = f"{host.node.rig.id}-{name}"
    limits = {"metax-tech.com/sgpu": "1", "koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory": "1Gi"}
    spec = {"nodeName": host.node.name, "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}]}
    host.node.rig.objects.append(f"{PODS}/{name}")
    host.node.api.create(PODS, {"metadata": {"name": name}, "spec": spec})
    return host.kubelet.admit("default", name, {"metax-tech.com/sgpu": 1})


def slices(host):
    return [(card["uuid"], s["uuid"]) for card in host.node.hardware()["metax"] for s in card["slices"]]


def ill(host):
    """Vendors of which a card is called ill."""
    return {c["vendor"] for c in host.node.cards_told() if condition(c, "Healthy").get("status") == "False"}


def bound(host, name):
    pod(host, name)
    found = wait_for(lambda: slices(host), 30, "a slice")
    wait_for(lambda: any(name.startswith("slot.") for name in host.spec()), 30, "its CDI file")
    return found


def test_one_profile_gives_each_vendors_cards_their_mode(both):
    path = both.node.rig.profile("both", *POLICY)
    both.node.rig.wait_ready(path)
    vendors = [(c["vendor"], c["mode"]) for c in both.node.cards_told()]
    assert sorted(vendors) == [("metax", "sgpu")] * 2 + [("nvidia", "mig")] * 2
    assert both.node.resources() == {**NVIDIA, **METAX}


def test_events_name_the_vendor_of_a_card(both):
    """Both vendors' first card is number 0."""

    def named():
        return {e["note"].split(":")[0] for e in both.node.rig.events(both.node.name, "Repartitioned")}

    cards = {"NVIDIA GPU 0", "NVIDIA GPU 1", "MetaX GPU 0", "MetaX GPU 1"}
    wait_for(lambda: named() == cards, 30, f"an Event for each of {cards}")


def test_each_vendors_cards_are_told_in_its_own_labels(both):
    def told():
        labels = both.node.labels()
        return labels if "metax-tech.com/gpu.product" in labels and "nvidia.com/gpu.machine" in labels else None

    labels = wait_for(told, 30, "the labels")
    assert (labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.count"]) == ("NVIDIA-H100-80GB-HBM3", "2")
    assert (labels["metax-tech.com/gpu.product"], labels["metax-tech.com/gpu.memory"]) == ("MXC500", "64GB")
    assert labels["gpu.cleave.dev/MXC500.count"] == "2"


def test_a_change_of_one_vendors_cards_leaves_the_others_as_they_are(both):
    stands = bound(both, "stays")
    both.node.ctl("log", "--clear")
    both.node.label(**{"nvidia.com/mig.config": "all-3g.40gb"})
    both.kubelet.wait_offers(**{"nvidia.com/mig-3g.40gb": 4}, **METAX)
    assert slices(both) == stands
    assert not [c for c in both.node.changes() if json.dumps(c).find("mxSml") >= 0]


@pytest.mark.parametrize(
    "call, vendor, healthy",
    [
        ("mxSmlGetDeviceInfo", "metax", NVIDIA),
        ("nvmlDeviceGetCount_v2", "nvidia", METAX),
    ],
)
def test_a_vendor_whose_library_fails_takes_no_card_of_the_other_with_it(both, call, vendor, healthy):
    action = "fail:Failure" if call.startswith("mx") else "fail:UNKNOWN"
    both.node.ctl("fault", "add", "--call", call, "--nth", 0, "--action", action)
    both.kubelet.wait_offers(**healthy)
    wait_for(lambda: ill(both) == {vendor}, 30, lambda: f"the cards of {vendor} to be called ill, not of {ill(both)}")
    both.node.ctl("fault", "clear")
    both.kubelet.wait_offers(**NVIDIA, **METAX)


def test_slices_are_made_while_nvidias_library_fails(both):
    both.node.ctl("fault", "add", "--call", "nvmlDeviceGetCount_v2", "--nth", 0, "--action", "fail:UNKNOWN")
    both.kubelet.wait_offers(**METAX)
    assert bound(both, "goes-on")


SLICES = {"qosPolicy": "fixed-share", "slices": [{"alias": "a", "memoryMiB": 1024, "computePercent": 10, "count": 2}]}


@pytest.mark.long
@pytest.mark.parametrize("hung", ["nvml", "mxsml"])
def test_nobody_waits_for_the_other_vendors_library(rig, hung):
    """One vendor's library hangs in every call; the other's cards are changed, read and reported as ever."""
    node = rig.node({"h100-80": 2, "c500": 2}, call_deadline_ms=2000)
    of = {"nvidia": [c["uuid"] for c in node.hardware()["gpus"]], "metax": [c["uuid"] for c in node.hardware()["metax"]]}
    wants = {
        "nvml": lambda count: [mig(uuid, {"1g.10gb": count}) for uuid in of["nvidia"]],
        "mxsml": lambda count: [{"uuid": uuid, "mode": "sgpu", "sgpu": {**SLICES, "slices": [{**SLICES["slices"][0], "count": count}]}} for uuid in of["metax"]],
    }
    free = "mxsml" if hung == "nvml" else "nvml"
    cards = of["metax" if free == "mxsml" else "nvidia"]
    used = set(re.findall(r"^\s*[1-9]\d*\s+(\w+)", node.ctl("calls"), re.M))
    for line in node.ctl("fault", "names").splitlines():
        library, kind, name, *_ = line.split()
        if library.lower() == hung and kind == "call" and name in used:
            node.ctl("fault", "add", "--call", name, "--action", "hang:600")

    def done(count):
        shown = {c["uuid"]: c for c in node.cards_told()}
        return all(condition(shown[u], "Applied").get("reason") == "Applied" and len(shown[u]["partitions"]) == count for u in cards)

    for count in (2, 3, 1):
        node.want(*wants[free](count))
        wait_for(lambda: done(count), 30, lambda: f"the cards of {free} to have {count}: {json.dumps(node.status()['devices'])}")
    wait_for(lambda: condition(node.status(), "Ready").get("reason") == "NVMLTimeout", 30, "the hang to be told")
    assert node.agent.stop() == 1
    node.ctl("fault", "clear")
    node.start()
    node.want(*wants["nvml"](1), *wants["mxsml"](1))
    node.wait_ready()
