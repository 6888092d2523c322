# SPDX-License-Identifier: Apache-2.0
"""Two ways in which a card of MetaX's is given to several pods without slices: a whole card that they share, and virtual
functions that an administrator made. On a real API server and a stub of the kubelet, and with the controller."""

import json
import re
import subprocess

import pytest
from conftest import wait_for
from kubelet_stub import grpc, kubelet  # noqa: F401
from stack import FLEETS, SIM, condition, native, rig  # noqa: F401
from test_plugin_stub import Host
from test_standalone import AGENT, ROOT, host, profile  # noqa: F401

GPU = "metax-tech.com/gpu"
SHARED = "metax-tech.com/gpu.shared"
VGPU = "metax-tech.com/vgpu"
CDI = "gpu.cleave.dev/metax="
SOURCE = {"source": {"kind": "GPUProfile", "name": "p", "generation": 1}}
BOTH = FLEETS / "c500-vf.yaml"  # the first card has four functions, the second none


class Modes:
    """A node of MetaX's cards whose agent serves the stub."""

    def __init__(self, rig, kubelet, fleet):
        self.rig = rig
        self.kubelet = kubelet
        self.host = Host(rig, kubelet, fleet)
        self.node = self.host.node
        self.look()
        self.host.start()
        wait_for(self.node.agrees, 30, "the agent")

    def look(self):
        """The kernel's side of what stands now."""
        self.node.ctl("sys-root", self.node.folder)
        self.node.ctl("dev-root", self.host.driver)

    def make_vfs(self, metax, count):
        """As mx-smi vm --enable-vf and --disable-vf do."""
        self.node.ctl("vfs", "--gpu", f"metax:{metax}", count)
        self.look()

    def reads(self):
        return int(re.search(r"(\d+)\s+mxSmlGetDeviceCount\b", self.node.ctl("calls")).group(1))

    def wait_reads(self, more):
        target = self.reads() + more
        wait_for(lambda: self.reads() >= target, 30, "more readings of the hardware")

    def card(self, metax):
        return self.node.hardware()["metax"][metax]

    def uuid(self, metax):
        return self.card(metax)["uuid"]

    def partitions(self, metax):
        return {p["vf"]["index"]: p for p in self.node.card(metax).get("partitions", [])}

    def edits(self, device):
        """What the runtime finds under a name of the answer."""
        assert device.name.startswith(CDI)
        return self.host.spec()[device.name.removeprefix(CDI)]


def nodes_of(edits):
    return [n["path"] for n in edits["deviceNodes"]]


def offers(node):
    """Allocatable in MetaX's domain, after a look that capacity says the same."""
    status = node.node_object()["status"]
    given, has = ({k: int(v) for k, v in status[m].items() if k.startswith("metax-tech.com/")} for m in ("allocatable", "capacity"))
    return given if given == has else {"allocatable": given, "capacity": has}


def wait_node(node, **counts):
    wait_for(lambda: offers(node) == counts, 30, lambda: f"the Node to offer {counts}, not {offers(node)}")


@pytest.fixture
def modes(rig, kubelet):
    """One card with four functions, one whole."""
    m = Modes(rig, kubelet, BOTH)
    kubelet.wait_offers(**{VGPU: 4, GPU: 1})
    return m


# --- virtual functions ---


def test_each_function_is_offered_and_its_card_is_not(modes):
    cut, whole = modes.uuid(0), modes.uuid(1)
    assert modes.host.ids(VGPU) == [f"{cut}/vf@{i}" for i in range(4)]
    assert modes.host.ids(GPU) == [whole]
    status = modes.node.status()
    assert [(c["index"], c["mode"], c["uuid"]) for c in status["devices"]] == [(0, "vgpu", cut), (1, "native", whole)]
    assert status["summary"]["layout"] == "1xgpu 4xvf"
    shown = modes.partitions(0)
    assert [shown[i]["uuid"] for i in range(4)] == [vf["uuid"] for vf in modes.card(0)["virtualFunctions"]]
    assert [shown[i]["vf"]["pciBusID"] for i in range(4)] == [vf["bdf"] for vf in modes.card(0)["virtualFunctions"]]
    assert {p["profile"] for p in shown.values()} == {"vf"} and {p["vf"]["memoryMiB"] for p in shown.values()} == {16384}


def test_a_pod_gets_the_nodes_of_its_function_and_is_named_as_its_user(modes):
    pod = modes.kubelet.admit("default", "train", {VGPU: 1})
    (name,) = pod.devices[VGPU]
    number = int(name.rpartition("@")[2])
    (device,) = pod.answers[VGPU].cdi_devices
    assert device.name == f"{CDI}{modes.uuid(0)}-vf-{number}"
    assert nodes_of(modes.edits(device)) == [f"/dev/dri/card{17 + number}", f"/dev/dri/renderD{144 + number}"]
    assert "env" not in modes.edits(device)
    modes.node.ctl("attach", "--gpu", "metax:0", "--vf", number, "--pid", 4711, "--mem", 100, "--name", "train")
    users = wait_for(lambda: [u for u in modes.partitions(0)[number].get("inUseBy", []) if u.get("pid")], 30, "the process")
    assert users[0]["pid"] == 4711
    wait_for(lambda: any(u.get("name") == "train" for u in modes.partitions(0)[number]["inUseBy"]), 30, "the pod")
    assert [i for i, p in modes.partitions(0).items() if p.get("inUse")] == [number]


def test_functions_that_come_and_go_are_offered_and_withdrawn(modes):
    cut, whole = modes.uuid(0), modes.uuid(1)
    modes.make_vfs(1, 2)
    modes.kubelet.wait_offers(**{VGPU: 6})
    assert modes.host.ids(VGPU) == sorted([f"{cut}/vf@{i}" for i in range(4)] + [f"{whole}/vf@{i}" for i in range(2)])
    modes.make_vfs(0, 0)
    modes.kubelet.wait_offers(**{VGPU: 2, GPU: 1})
    assert modes.host.ids(GPU) == [cut]
    assert [(c["index"], c["uuid"]) for c in modes.node.cards_told()] == [(0, cut), (1, whole)]
    modes.make_vfs(0, 8)
    modes.kubelet.wait_offers(**{VGPU: 10})


def test_functions_of_a_card_that_cannot_be_read_are_not_offered_and_keep_their_names(modes):
    pod = modes.kubelet.admit("default", "train", {VGPU: 1})
    modes.node.ctl("fault", "add", "--gpu", "metax:0", "--call", "mxSmlGetVirtualDevicesByPhysicalId", "--nth", 0, "--action", "fail:SysfsError:EIO")
    modes.kubelet.wait_offers(**{GPU: 1})
    wait_for(lambda: condition(modes.node.card(0), "Healthy").get("reason") == "ReadFailed", 30, "the reason")
    assert [c["mode"] for c in modes.node.cards_told()] == ["vgpu", "native"], "as it was seen last"
    modes.wait_reads(2)
    assert modes.edits(pod.answers[VGPU].cdi_devices[0]), "its container may start again"
    modes.node.ctl("fault", "clear")
    modes.kubelet.wait_offers(**{VGPU: 4, GPU: 1})


@pytest.mark.parametrize("mode", ["native", "sgpu"])
def test_what_functions_stand_in_the_way_of_is_refused_and_never_attempted(modes, mode):
    cut, whole = modes.uuid(0), modes.uuid(1)
    modes.node.want({"uuid": cut, "mode": mode}, {"uuid": whole, "mode": "vgpu"})
    stand = modes.node.wait_applied("VirtualFunctionsStand", 0)
    missing = modes.node.wait_applied("VirtualFunctionsMissing", 1)
    assert "mx-smi vm --disable-vf" in stand["message"] and "mx-smi vm --enable-vf 1|2|4|8" in missing["message"]
    for index, said in enumerate((stand, missing)):
        (event,) = wait_for(lambda said=said: modes.rig.events(modes.node.name, said["reason"]), 30, "an Event")
        assert event["type"] == "Warning" and event["note"] == f"MetaX GPU {index}: {said['message']}"
    modes.kubelet.wait_offers()
    assert modes.node.changes() == []
    modes.make_vfs(1, 2)
    modes.node.wait_applied("Applied", 1)
    modes.kubelet.wait_offers(**{VGPU: 2})
    modes.make_vfs(0, 0)
    modes.node.wait_applied("Applied", 0)


def test_a_profile_of_functions_is_ready_where_they_stand_and_refused_elsewhere(rig):
    rig.controller()
    node = rig.node(BOTH)
    wait_node(node, **{VGPU: 4, GPU: 1})
    functions = {"selector": {"vendor": "metax", "indices": [0]}, "mode": "vgpu"}
    rig.wait_ready(rig.profile("p", functions, {"mode": "native"}))
    wait_node(node, **{VGPU: 4, GPU: 1})
    refused = rig.wait_condition(rig.profile("p", {"mode": "vgpu"}), "Stalled", "VirtualFunctionsMissing")
    assert "mx-smi vm --enable-vf" in condition(refused, "Stalled")["message"]
    refused = rig.wait_condition(rig.profile("p", {"mode": "native"}), "Stalled", "VirtualFunctionsStand")
    assert "mx-smi vm --disable-vf" in condition(refused, "Stalled")["message"]
    wait_node(node, **{VGPU: 4, GPU: 1})
    node.ctl("vfs", "--gpu", "metax:0", 0)
    rig.wait_ready(rig.profile("p", {"mode": "native"}))
    wait_node(node, **{GPU: 2})


def test_functions_of_nvidias_cards_are_refused(rig):
    rig.controller()
    node = rig.node({"h100-80": 1})
    refused = rig.wait_condition(rig.profile("p", {"mode": "vgpu"}), "Stalled", "VGPUUnsupported")
    assert "MetaX" in condition(refused, "Stalled")["message"]
    assert node.changes() == []


# --- a whole card that several share ---


@pytest.fixture
def shared(rig, kubelet):
    """Two cards that three share each."""
    m = Modes(rig, kubelet, {"c500": 2})
    kubelet.wait_offers(**{GPU: 2})
    m.node.want(*(native(m.uuid(i), sharing={"timeSlicing": {"replicas": 3}}) for i in range(2)), **SOURCE)
    kubelet.wait_offers(**{GPU: 6})
    return m


def test_replicas_of_a_card_are_its_nodes_and_are_spread(shared):
    assert shared.host.ids(GPU) == sorted(f"{shared.uuid(i)}::{n}" for i in range(2) for n in range(3))
    pods = [shared.kubelet.admit("default", f"p{i}", {GPU: 1}) for i in range(2)]
    held = {pod.devices[GPU][0].partition("::")[0] for pod in pods}
    assert held == {shared.uuid(0), shared.uuid(1)}, "each on a card of its own while there is one"
    for pod in pods:
        (device,) = pod.answers[GPU].cdi_devices
        place = next(i for i in range(2) if device.name == CDI + shared.uuid(i))
        assert nodes_of(shared.edits(device)) == [f"/dev/dri/card{1 + place}", f"/dev/dri/renderD{128 + place}"]
    (both,) = shared.kubelet.allocate(GPU, [f"{shared.uuid(0)}::{n}" for n in range(2)])
    assert [d.name for d in both.cdi_devices] == [CDI + shared.uuid(0)], "two replicas are one card"


def test_a_shared_card_may_have_a_name_of_its_own_and_refuse_a_second_replica(shared):
    terms = {"replicas": 4, "renameByDefault": True, "failRequestsGreaterThanOne": True}
    shared.node.want(native(shared.uuid(0), sharing={"timeSlicing": terms}), native(shared.uuid(1)), **SOURCE)
    shared.kubelet.wait_offers(**{SHARED: 4, GPU: 1})
    with pytest.raises(grpc.RpcError, match="failRequestsGreaterThanOne"):
        shared.kubelet.allocate(SHARED, [f"{shared.uuid(0)}::{n}" for n in range(2)])


def test_a_profile_shares_cards_of_metax_and_mps_is_refused(rig):
    rig.controller()
    node = rig.node({"c500": 2})
    wait_node(node, **{GPU: 2})
    terms = {"replicas": 4, "renameByDefault": True}
    rig.wait_ready(rig.profile("p", {"selector": {"indices": [0]}, "mode": "native", "sharing": {"timeSlicing": terms}}, {"mode": "native"}))
    wait_node(node, **{SHARED: 4, GPU: 1})
    refused = rig.wait_condition(rig.profile("p", {"mode": "native", "sharing": {"mps": {"replicas": 2}}}), "Stalled", "MPSUnsupported")
    assert "NVIDIA" in condition(refused, "Stalled")["message"]
    wait_node(node, **{SHARED: 4, GPU: 1})


def test_mps_is_refused_by_the_agent_too(shared):
    shared.node.want(native(shared.uuid(0), sharing={"mps": {"replicas": 2}}), **SOURCE)
    assert "MPS" in shared.node.wait_applied("MPSUnsupported", 0)["message"]


def test_what_nvidias_plugin_is_told_of_its_cards_is_not_told_of_others(rig, kubelet):
    m = Modes(rig, kubelet, {"c500": 1})
    file = m.node.folder / "config.yaml"
    file.write_text("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n")
    m.node.agent.stop()
    m.host.start(plugin_config=file)
    kubelet.wait_offers(**{GPU: 1})


# --- without a cluster ---


def test_verbs_show_functions_and_refuse_what_they_stand_in_the_way_of(host):
    h = host("c500-vf")
    seen = h.inspect()
    assert "virtual functions" in seen and seen.count("\n    vf ") == 4, seen
    status = json.loads(h.agent("inspect", "--json"))
    assert [(c["mode"], len(c.get("partitions", []))) for c in status["devices"]] == [("vgpu", 4), ("native", 0)]
    functions = h.file("a.yaml", profile([{"selector": {"indices": [0]}, "mode": "vgpu"}]))
    for verb in ("plan", "apply", "assert"):
        h.agent(verb, "-f", functions)
    for mode, said in (("native", "VirtualFunctionsStand"), ("vgpu", "VirtualFunctionsMissing")):
        text = h.agent("apply", "-f", h.file("b.yaml", profile([{"mode": mode}])), code=1)
        assert said in text, text
    assert h.changes() == []
    done = subprocess.run([AGENT, "export"], env=h.env, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr
